# Cross-compiles for arm64 with Debian's g++-aarch64-linux-gnu, and runs what it made with qemu.
# The headers and libraries are those of the folder CAIRN_ARM64_ROOT, which tools/arm64_root makes.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(CAIRN_ARM64_ROOT "${CMAKE_CURRENT_LIST_DIR}/../build/arm64_root" CACHE PATH
    "Folder with Debian's arm64 packages")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CAIRN_ARM64_ROOT)
get_filename_component(CMAKE_SYSROOT "${CAIRN_ARM64_ROOT}" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L "${CMAKE_SYSROOT}")

# -DCAIRN_STATIC_TOOL=ON: the third parties' static libraries are taken, and libcurl from the folder
# of tools/static_curl. For a build folder of its own, like that of the preset `static`.
if(CAIRN_BUILD_TRAIN)
  message(FATAL_ERROR "CAIRN_STATIC_TOOL builds the tool alone: add -DCAIRN_BUILD_TRAIN=OFF")
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
set(OPENSSL_USE_STATIC_LIBS ON)

if(CAIRN_BUILD_NET)
  if(NOT EXISTS "${CAIRN_STATIC_CURL}/lib/libcurl.a")
    message(FATAL_ERROR "There is no static libcurl in \"${CAIRN_STATIC_CURL}\". Run "
                        "tools/static_curl FOLDER and add -DCAIRN_STATIC_CURL=FOLDER, or leave out "
                        "the network stores with -DCAIRN_BUILD_NET=OFF")
  endif()
  find_package(OpenSSL REQUIRED)
  set(CURL_INCLUDE_DIRS "${CAIRN_STATIC_CURL}/include")
  add_library(cairn_static_curl INTERFACE)
  target_link_libraries(cairn_static_curl INTERFACE "${CAIRN_STATIC_CURL}/lib/libcurl.a"
                                                    OpenSSL::SSL)
endif()

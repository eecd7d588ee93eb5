# cmake --install gives find_package(cairn CONFIG) and pkg-config: cairn::core and cairn::train, or
# cairn-core and cairn. The consumers in tests/install prove it. With BUILD_SHARED_LIBS both are
# libcairn.so. Two export files, so that a program that wants the core alone needs no libtorch to
# configure.
if(CAIRN_STATIC_TOOL)  # its library is for the tool alone
  return()
endif()
include(CMakePackageConfigHelpers)
set(cairn_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/cairn")

set(parts core)
set(not_installed)
if(CAIRN_BUILD_TRAIN)
  list(APPEND parts train)
else()
  foreach(folder train callbacks algorithms loggers schedulers optim metrics dist)
    list(APPEND not_installed PATTERN ${folder} EXCLUDE)
  endforeach()
  list(APPEND not_installed PATTERN cairn.h EXCLUDE)
endif()

if(BUILD_SHARED_LIBS)
  set(installed_core cairn_shared)
  set(installed_train cairn_train_shared)
else()
  set(installed_core cairn_core)
  set(installed_train cairn_train)
endif()
foreach(part IN LISTS parts)
  install(TARGETS ${installed_${part}} EXPORT cairn_${part}_targets
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime
                  NAMELINK_COMPONENT development)
  install(EXPORT cairn_${part}_targets NAMESPACE cairn:: DESTINATION "${cairn_package_dir}"
          COMPONENT development)
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cairn" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        COMPONENT development FILES_MATCHING PATTERN "*.h" ${not_installed})

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/cairnConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/cairnConfig.cmake"
                              INSTALL_DESTINATION "${cairn_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cairnConfig.cmake"
              "${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/cairn_dependencies.cmake"
        DESTINATION "${cairn_package_dir}" COMPONENT development)

# For pkg-config. The files find the prefix from where they are, so that it may be moved.
set(cairn_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH cairn_pc_prefix "/prefix/${cairn_pc_dir}" /prefix)
if(BUILD_SHARED_LIBS)
  set(cairn_pc_core -lcairn)
  set(cairn_pc_train)
else()
  list(TRANSFORM CAIRN_LIBRARIES PREPEND -l OUTPUT_VARIABLE cairn_pc_core)
  list(PREPEND cairn_pc_core -lcairn-core -lfmt)
  list(APPEND cairn_pc_core -pthread -ldl)
  set(cairn_pc_train -lcairn-train)
endif()
if(CAIRN_BUILD_TRAIN)
  # libstdc++ stands in front of libtorch: see src/CMakeLists.txt.
  list(APPEND cairn_pc_train -lstdc++)
  set(cairn_pc_flags ${TORCH_CXX_FLAGS})
  if(NOT TORCH_INSTALL_PREFIX MATCHES "^/usr/?$")
    list(APPEND cairn_pc_train -L${TORCH_INSTALL_PREFIX}/lib
                               -Wl,-rpath,${TORCH_INSTALL_PREFIX}/lib)
  endif()
  list(APPEND cairn_pc_train -ltorch -ltorch_cpu -lc10)
  foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
    if(NOT folder STREQUAL /usr/include)
      list(APPEND cairn_pc_flags -I${folder})
    endif()
  endforeach()
endif()
list(JOIN cairn_pc_core " " cairn_pc_core)
list(JOIN cairn_pc_train " " cairn_pc_train)
list(JOIN cairn_pc_flags " " cairn_pc_flags)
foreach(part IN LISTS parts)
  set(name cairn-core)
  if(part STREQUAL train)
    set(name cairn)
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc"
                 @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${cairn_pc_dir}"
          COMPONENT development)
endforeach()

# cmake --install gives find_package(cairn CONFIG) with cairn::core and cairn::train; the consumer
# in tests/install proves it. Two export files, so that a program that wants the core alone needs
# no libtorch to configure.
if(CAIRN_STATIC_TOOL)  # its library is for the tool alone
  return()
endif()
include(CMakePackageConfigHelpers)
set(cairn_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/cairn")

set(components core)
set(not_installed)
if(CAIRN_BUILD_TRAIN)
  list(APPEND components train)
else()
  foreach(folder train callbacks algorithms loggers schedulers optim metrics dist)
    list(APPEND not_installed PATTERN ${folder} EXCLUDE)
  endforeach()
  list(APPEND not_installed PATTERN cairn.h EXCLUDE)
endif()

foreach(component IN LISTS components)
  install(TARGETS cairn_${component} EXPORT cairn_${component}_targets
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT cairn_${component}_targets NAMESPACE cairn:: DESTINATION "${cairn_package_dir}")
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cairn" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" ${not_installed})

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/cairnConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/cairnConfig.cmake"
                              INSTALL_DESTINATION "${cairn_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cairnConfig.cmake"
              "${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/cairn_dependencies.cmake"
        DESTINATION "${cairn_package_dir}")

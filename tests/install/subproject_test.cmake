# Configures a project that compiles cairn with itself, by add_subdirectory and by FetchContent.
# Neither brings it cairn's tests, its tool or its installation. With COMPILE set, and if the
# environment has CAIRN_COMPILE_SUBPROJECT, compiles and runs it, too, which takes over a minute.
#   cmake -DWORK=... -DSOURCE=... -DGENERATOR=... [-DCOMPILE=yes] -DARGUMENTS=... -P this
if(COMPILE AND NOT DEFINED ENV{CAIRN_COMPILE_SUBPROJECT})
  message("skipped: CAIRN_COMPILE_SUBPROJECT is not set")
  return()
endif()

file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(how add_subdirectory FetchContent)
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/install/subproject -B ${WORK}/build -G ${GENERATOR}
      -DCAIRN=${SOURCE} -DHOW=${how} -DCMAKE_UNITY_BUILD=ON
      -DCMAKE_UNITY_BUILD_BATCH_SIZE=40 ${ARGUMENTS})
  execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build -N
                  OUTPUT_VARIABLE tests COMMAND_ERROR_IS_FATAL ANY)
  if(NOT tests MATCHES "Total Tests: 0")
    message(FATAL_ERROR "${how}: cairn brought tests: ${tests}")
  endif()
  file(GLOB_RECURSE scripts ${WORK}/build/_deps/cairn-build/*/cmake_install.cmake)
  foreach(script IN LISTS scripts)
    file(STRINGS ${script} installs REGEX "file\\(INSTALL")
    if(installs)
      message(FATAL_ERROR "${how}: cairn installs itself: ${script}: ${installs}")
    endif()
  endforeach()

  if(COMPILE)
    run(${CMAKE_COMMAND} --build ${WORK}/build)
    run(${WORK}/build/core_consumer ${WORK}/core.pt)
    run(${CMAKE_COMMAND} --install ${WORK}/build --prefix ${WORK}/prefix)
    file(GLOB_RECURSE installed RELATIVE ${WORK}/prefix ${WORK}/prefix/*)
    if(NOT installed STREQUAL "bin/core_consumer")
      message(FATAL_ERROR "${how}: installed ${installed}")
    endif()
  endif()
endforeach()

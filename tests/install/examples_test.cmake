# Builds installed examples, each as a project of its own, as their user would, and runs them.
#   cmake -DINSTALLED=... -DWORK=... -DEXAMPLES=compare;own_loop -DARGUMENTS=... -P this
# INSTALLED: the WORK of install_test.cmake. With IF_SET=NAME: only if the environment has NAME.
cmake_minimum_required(VERSION 3.25)
if(IF_SET AND NOT DEFINED ENV{${IF_SET}})
  message("skipped: ${IF_SET} is not set")
  return()
endif()

set(PREFIX ${INSTALLED}/prefix)
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
foreach(example IN LISTS EXAMPLES)
  run(${CMAKE_COMMAND} -S ${PREFIX}/share/cairn/examples/${example} -B ${WORK}/${example}
      -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${PREFIX} -DCMAKE_UNITY_BUILD=ON ${ARGUMENTS})
  run(${CMAKE_COMMAND} --build ${WORK}/${example})
endforeach()

if("digits" IN_LIST EXAMPLES)
  run(${WORK}/digits/digits --max-duration 1ep --no-progress-bar --save-folder digits_ckpt)
endif()
if("own_loop" IN_LIST EXAMPLES)
  run(${WORK}/own_loop/own_loop)
endif()
if("compare" IN_LIST EXAMPLES AND "own_loop" IN_LIST EXAMPLES)
  run(${WORK}/compare/compare_weights ckpt/step200.pt ckpt/step200.pt)
endif()

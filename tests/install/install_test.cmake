# Installs the build BUILD to a new prefix below WORK, moves the prefix (a package must not depend
# on where it was made), and builds and runs the consumer against it.
#   cmake -DBUILD=... -DWORK=... -DSOURCE=... -DWITH=train -DCOMPILER=c++ -DARGUMENTS=... -P this
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/made)
file(RENAME ${WORK}/made ${WORK}/prefix)

# The package must not name the build's folders or header-only libraries.
file(GLOB_RECURSE files ${WORK}/prefix/*.cmake)
foreach(file IN LISTS files)
  file(STRINGS ${file} leaks REGEX "${SOURCE}|${BUILD}|nlohmann_json::")
  if(leaks)
    message(FATAL_ERROR "${file} names what is not installed: ${leaks}")
  endif()
endforeach()

# The tool comes with its man pages and completions.
foreach(file man/man1/cairn.1 man/man1/cairn-ls.1 bash-completion/completions/cairn
             zsh/site-functions/_cairn fish/vendor_completions.d/cairn.fish)
  file(SIZE ${WORK}/prefix/share/${file} size)  # an error when there is none
  if(size EQUAL 0)
    message(FATAL_ERROR "share/${file} is empty")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${SOURCE}/tests/install/consumer -B ${WORK}/build -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DWITH=${WITH} ${ARGUMENTS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/core_consumer ${WORK}/core.pt)
if(WITH STREQUAL "train")
  run(${WORK}/build/train_consumer ${WORK}/train.pt)
endif()

# The same by pkg-config, and without CMake.
find_program(PKG_CONFIG pkg-config)
if(NOT PKG_CONFIG)
  message("pkg-config is not installed: cairn-core.pc was not tried")
  return()
endif()
file(GLOB_RECURSE described ${WORK}/prefix/*/cairn-core.pc)
get_filename_component(folder "${described}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${folder}")
foreach(program core ${WITH})
  set(package cairn-core)
  if(program STREQUAL train)
    set(package cairn)
  endif()
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs ${package} OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${COMPILER} -std=c++20 ${SOURCE}/tests/install/consumer/${program}.cpp
      -o ${WORK}/${program}_by_pkg_config ${flags} -Wl,-rpath,${folder}/..)
  run(${WORK}/${program}_by_pkg_config ${WORK}/${program}_by_pkg_config.pt)
endforeach()

# Warnings for our own targets only; consumers never inherit them.
function(cairn_warnings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                           $<$<BOOL:${CAIRN_WERROR}>:-Werror>)
  # GCC 12 warns of every `"text" + std::string` (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  # In a unity build GCC takes a class of a .cpp, which holds a nameless one, for a header's.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_UNITY_BUILD)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# For what is installed. Calls of libc that the compiler can bound are checked, where it optimises:
# without that glibc has no such checks. A program's table of functions is bound when it starts, and
# cannot be written to afterwards. A sanitizer does more, and does not go with either.
function(cairn_harden target)
  if(CAIRN_SANITIZER)
    return()
  endif()
  target_compile_options(${target} PRIVATE
    "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now)
endfunction()

# Makes a shared library of the objects of core and train. It is one library, because train uses
# what core does not export.
function(cairn_link_whole target)
  set(map "${PROJECT_SOURCE_DIR}/src/libcairn.map")
  foreach(part cairn_core cairn_train)
    if(TARGET ${part})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${part}>)
      get_target_property(libraries ${part} LINK_LIBRARIES)
      list(REMOVE_ITEM libraries cairn::core)
      list(TRANSFORM libraries REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
      target_link_libraries(${target} PRIVATE ${libraries})
    endif()
  endforeach()
  target_link_options(${target} PRIVATE LINKER:-z,defs "LINKER:--version-script=${map}")
  set_property(TARGET ${target} PROPERTY LINK_DEPENDS "${map}")
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  cairn_harden(${target})
endfunction()

# cairn_register_tests(PROGRAM LABELS unit [GPU] [ENVIRONMENT A=b ...]): tells ctest of a program of
# GoogleTest's. With GPU it may see those of the machine; the others compare with what a processor
# computed. Each TEST() is a test of ctest and a process, which one chooses by name. With
# CAIRN_TEST_PARTS=N the program's tests run in N processes instead: starting one costs more
# (libtorch, a sanitizer) than most tests take. tools/test_counts.py counts what was in them.
function(cairn_register_tests program)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "GPU" "" "LABELS;ENVIRONMENT")
  set(hidden)
  if(NOT ARG_GPU)
    set(hidden ENVIRONMENT_MODIFICATION CUDA_VISIBLE_DEVICES=set:)
  endif()
  if(NOT CAIRN_TEST_PARTS)
    include(GoogleTest)
    # gtest_discover_tests() flattens a list among its PROPERTIES, so ctest sets the labels, when it
    # has read the tests.
    set(environment)
    if(ARG_ENVIRONMENT)  # an empty value would be lost, and its name stand for the next one's
      set(environment ENVIRONMENT ${ARG_ENVIRONMENT})
    endif()
    gtest_discover_tests(${program} DISCOVERY_TIMEOUT 120
                         PROPERTIES TIMEOUT 400 ${environment} ${hidden})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${program}_labels.cmake)
    file(WRITE ${file} "if(${program}_TESTS)
  set_tests_properties(\${${program}_TESTS} PROPERTIES LABELS \"${ARG_LABELS}\")
endif()
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
    return()
  endif()
  math(EXPR last "${CAIRN_TEST_PARTS} - 1")
  foreach(part RANGE ${last})
    set(name ${program}.${part})
    add_test(NAME ${name} COMMAND ${program})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1200 ${hidden})
    set_property(TEST ${name} PROPERTY ENVIRONMENT ${ARG_ENVIRONMENT} GTEST_BRIEF=1
      GTEST_TOTAL_SHARDS=${CAIRN_TEST_PARTS} GTEST_SHARD_INDEX=${part}
      GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/test_parts/${name}.xml)
    if(ARG_LABELS MATCHES "attack|crash|slow|hostile")
      set_property(TEST ${name} PROPERTY COST 100)  # the long ones first
    endif()
  endforeach()
endfunction()

# What tests the library is not looked at for undefined behaviour itself: that doubles its code.
function(cairn_helps_testing target)
  if(CAIRN_SANITIZER STREQUAL memory)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# For test programs: optimising them would cost more than it saves in running them. The library
# under test keeps the flags of the preset.
function(cairn_compile_quickly target)
  target_compile_options(${target} PRIVATE -O0)
  cairn_helps_testing(${target})
endfunction()

# cairn_tests(PROGRAM LABELS unit FILES a_test b_test [LIBS ...] [SOURCES ...]): one program of the
# test files FILES.cpp of the current folder, core only.
function(cairn_tests program)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "FILES;LABELS;LIBS;SOURCES")
  list(TRANSFORM ARG_FILES APPEND .cpp)
  add_executable(${program} ${ARG_FILES} ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE cairn::core ${ARG_LIBS} cairn_testing GTest::gmock
                                           GTest::gtest_main)
  target_compile_definitions(${program} PRIVATE CAIRN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  cairn_compile_quickly(${program})
  cairn_warnings(${program})
  # One seed for RapidCheck, so that a test passes or fails on every run alike.
  cairn_register_tests(${program} LABELS ${ARG_LABELS} ENVIRONMENT RC_PARAMS=seed=1)
endfunction()

# Lets a target include <torch/torch.h> through the precompiled header of another, with whose flags
# it is compiled then: torch's headers cost 20 s a file without it.
function(cairn_share_torch_header target owner)
  target_precompile_headers(${target} REUSE_FROM ${owner})
  set_property(TARGET ${target} PROPERTY POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE fmt::fmt)
endfunction()

# For programs as users have them.
function(cairn_reuse_torch_header target)
  cairn_share_torch_header(${target} cairn_train)
  cairn_harden(${target})  # a precompiled header is for the definitions that it was made with
endfunction()

# For tests, which are not optimised: that takes less than half of the time.
function(cairn_reuse_torch_test_header target)
  cairn_share_torch_header(${target} cairn_train_testing)
  target_compile_options(${target} PRIVATE -O0)
  target_link_libraries(${target} PRIVATE cairn_train_testing)  # its header's definitions
endfunction()

# cairn_train_tests(PROGRAM [GPU] FILES ...): like cairn_tests, for files that need libtorch.
function(cairn_train_tests program)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "GPU" "" "FILES;LABELS;LIBS")
  list(TRANSFORM ARG_FILES APPEND .cpp)
  add_executable(${program} ${ARG_FILES})
  target_link_libraries(${program} PRIVATE cairn::train ${ARG_LIBS} cairn_testing GTest::gmock
                                           GTest::gtest_main)
  target_compile_definitions(${program} PRIVATE CAIRN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  cairn_reuse_torch_test_header(${program})
  cairn_warnings(${program})
  set(gpu)
  if(ARG_GPU)
    set(gpu GPU)
  endif()
  cairn_register_tests(${program} ${gpu} LABELS train ${ARG_LABELS})
endfunction()

# Fuzzers are built in every developer build with a replay main, so that they cannot rot; the
# `fuzz` preset swaps in libFuzzer. cairn_fuzzer(NAME [SOURCE FILE]): FILE is NAME.cpp by default.
function(cairn_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "SOURCE" "")
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  if(NOT ARG_SOURCE)
    set(ARG_SOURCE ${name}.cpp)
  endif()
  add_executable(${name} ${ARG_SOURCE})
  target_link_libraries(${name} PRIVATE cairn::core)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  cairn_warnings(${name})
  if(CAIRN_LIBFUZZER)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(only_replay -runs=0)  # libFuzzer given a folder fuzzes for ever
  else()
    target_sources(${name} PRIVATE replay_main.cpp)
    set(only_replay)
  endif()
  if(EXISTS ${corpus})
    add_test(NAME ${name}_replay COMMAND ${name} ${only_replay} ${corpus})
    set_property(TEST ${name}_replay PROPERTY LABELS fuzz)
  endif()
endfunction()

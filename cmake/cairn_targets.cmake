# Warnings for our own targets only; consumers never inherit them.
function(cairn_warnings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                           $<$<BOOL:${CAIRN_WERROR}>:-Werror>)
  # GCC 12 warns of every `"text" + std::string` (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
endfunction()

# cairn_test(format/zip_test LABELS unit): one program per test file, core only.
function(cairn_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "LABELS;LIBS;SOURCES" )
  string(REPLACE "/" "_" target ${name})
  add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/${name}.cpp ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE cairn::core ${ARG_LIBS} cairn_testing GTest::gmock
                                          GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE
                             CAIRN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  cairn_warnings(${target})
  include(GoogleTest)
  # One seed for RapidCheck, so that a test passes or fails on every run alike.
  gtest_discover_tests(${target} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 120
                       ENVIRONMENT RC_PARAMS=seed=1
                       DISCOVERY_TIMEOUT 60)
endfunction()

# Lets a target include <torch/torch.h> through cairn_train's precompiled header.
function(cairn_reuse_torch_header target)
  target_precompile_headers(${target} REUSE_FROM cairn_train)
  # The library's flags, or its precompiled header could not be reused.
  set_property(TARGET ${target} PROPERTY POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE fmt::fmt-header-only)
endfunction()

# cairn_train_test(train/time_test ...): like cairn_test, for files that need libtorch. All share
# one precompiled header: torch's headers cost 20 s a file without it.
function(cairn_train_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "LABELS;LIBS;SOURCES")
  string(REPLACE "/" "_" target ${name})
  add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/${name}.cpp ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE cairn::train ${ARG_LIBS} cairn_testing GTest::gmock
                                          GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE
                             CAIRN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  cairn_reuse_torch_header(${target})
  cairn_warnings(${target})
  include(GoogleTest)
  gtest_discover_tests(${target} PROPERTIES LABELS "train;${ARG_LABELS}" TIMEOUT 300
                       DISCOVERY_TIMEOUT 120)
endfunction()

# Fuzzers are built in every developer build with a replay main, so that they cannot rot; the
# `fuzz` preset swaps in libFuzzer.
function(cairn_fuzzer name)
  add_executable(${name} ${name}.cpp $<$<NOT:$<BOOL:${CAIRN_LIBFUZZER}>>:replay_main.cpp>)
  target_link_libraries(${name} PRIVATE cairn::core)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_options(${name} PRIVATE $<$<BOOL:${CAIRN_LIBFUZZER}>:-fsanitize=fuzzer>)
  cairn_warnings(${name})
  # -runs=0: libFuzzer given a folder fuzzes for ever; here it must only replay.
  add_test(NAME ${name}_replay
           COMMAND ${name} $<$<BOOL:${CAIRN_LIBFUZZER}>:-runs=0>
                   ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}
           COMMAND_EXPAND_LISTS)
  set_property(TEST ${name}_replay PROPERTY LABELS fuzz)
endfunction()

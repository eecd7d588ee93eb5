// The tool's commands in the caller's process.
#include "cli/shell/tool.h"

#include <iostream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "c/error.h"

namespace cairn {
namespace {

std::vector<std::string> words_of(const char* const* arguments, std::size_t count) {
  if (count > 0) require(arguments, "arguments");
  std::vector<std::string> words;
  for (const char* word : std::span(arguments, count)) {
    require(word, "an argument");
    words.emplace_back(word);
  }
  return words;
}

}  // namespace
}  // namespace cairn

cairn_status cairn_tool(const char* const* arguments, size_t count, cairn_answer* answer,
                        cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(answer, "answer");
    *answer = {};
    std::ostringstream out;
    std::ostringstream err;
    const int exit_code = cairn::cli::run_tool(cairn::words_of(arguments, count), out, err);
    std::unique_ptr<char, void (*)(char*)> text(cairn::text_copy(out.str()), cairn_text_free);
    answer->err = cairn::text_copy(err.str());
    answer->out = text.release();
    answer->exit_code = exit_code;
  });
}

cairn_status cairn_tool_main(const char* const* arguments, size_t count, int* exit_code,
                             cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(exit_code, "exit_code");
    *exit_code = cairn::cli::run_tool(cairn::words_of(arguments, count), std::cout, std::cerr);
  });
}

#include "cli/view/console.h"

#include <fmt/format.h>

#include "core/text/json_text.h"
#include "core/text/size_text.h"

namespace cairn::cli {
namespace {

std::string painted(bool color, const char* code, const std::string& text) {
  return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

}  // namespace

std::string Console::red(const std::string& text) const { return painted(color, "31", text); }
std::string Console::green(const std::string& text) const { return painted(color, "32", text); }
std::string Console::dim(const std::string& text) const { return painted(color, "2", text); }

std::string Console::bytes(std::uint64_t count) const {
  return exact_bytes ? std::to_string(count) : size_text(count);
}

void Console::print_json(const Json& object) const { out << json_text(object, 1) << "\n"; }

}  // namespace cairn::cli

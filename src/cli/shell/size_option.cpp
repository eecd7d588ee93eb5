#include "cli/shell/size_option.h"

#include <string>

namespace cairn::cli {

CLI::Validator size_above_zero() {
  // A number below zero would wrap, and 0 stands for "no size was given".
  const auto convert = [to_bytes = CLI::AsSizeValue(true)](std::string& text) -> std::string {
    const std::string given = text;
    const bool is_negative = text.find('-') != std::string::npos;
    const std::string problem = is_negative ? "" : to_bytes(text);
    if (is_negative || text == "0") return given + ": a size above 0 is needed, as 5GB";
    return problem;
  };
  return {convert, CLI::AsSizeValue(true).get_description()};
}

}  // namespace cairn::cli

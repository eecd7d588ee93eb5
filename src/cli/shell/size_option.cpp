#include "cli/shell/size_option.h"

#include <charconv>
#include <string>
#include <system_error>

namespace cairn::cli {

CLI::Validator size_above_zero() {
  // Refuses a negative number, which would wrap, and 0, which means "no size was given".
  const auto convert = [to_bytes = CLI::AsSizeValue(true)](std::string& text) -> std::string {
    const std::string given = text;
    const bool is_negative = text.find('-') != std::string::npos;
    try {
      if (!is_negative && to_bytes(text).empty() && text != "0") return "";
    } catch (const CLI::ValidationError&) {
      // an unknown unit
    }
    return given + ": a size above 0 is needed, such as 5GB";
  };
  return {convert, CLI::AsSizeValue(true).get_description()};
}

CLI::Validator zero_or_more(const std::string& example) {
  const auto check = [example](const std::string& text) -> std::string {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && last == end && number >= 0) return {};
    return text + ": a number of 0 or more is needed, as in " + example;
  };
  return {check, ""};
}

}  // namespace cairn::cli

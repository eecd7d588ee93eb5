// The first line is a format, the second a name. Both are used, or refused with a UsageError. If
// the format is found in a name, formatting the counters that were found gives the name again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cairn/checkpoint/names.h"
#include "cairn/error.h"

namespace {

const cairn::FormatVariables kDist =
    cairn::dist_variables("run", [](const char*) { return nullptr; });
const cairn::FormatVariables kAll =
    kDist + cairn::time_variables({.epoch = 3,
                                   .batch = 1234567,
                                   .total_wct = {.days = 1, .microseconds = 1},
                                   .epoch_wct = {.seconds = 50}});

void use(const cairn::NameFormat& format, const std::string& name) {
  cairn::partial_format(format, kAll);
  const auto counters = cairn::parse_name(format, name, kDist);
  const bool has_clock =
      format.text().find("_wct") != std::string::npos;  // durations are not restored from a name
  if (!counters || has_clock) return;
  cairn::FormatVariables variables = kDist;
  for (const auto& [variable, value] : *counters) {
    variables.emplace_back(variable, value);
  }
  if (!cairn::parse_name(cairn::partial_format(format, variables), name, {})) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  try {
    use(cairn::NameFormat(text.substr(0, line)), text.substr(std::min(line + 1, text.size())));
  } catch (const cairn::UsageError&) {
  }
  return 0;
}

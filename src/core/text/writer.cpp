#include "core/text/writer.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

namespace cairn {
namespace {

using Version = std::array<std::uint32_t, 3>;

// Parses "cairn 1.2.3" and ignores the rest. A missing number is 0.
std::optional<Version> version_of(std::string_view writer) {
  constexpr std::string_view kName = "cairn ";
  if (!writer.starts_with(kName)) return std::nullopt;
  writer.remove_prefix(kName.size());
  Version version = {};
  for (std::uint32_t& number : version) {
    const char* const end = writer.data() + writer.size();
    const auto [stop, error] = std::from_chars(writer.data(), end, number);
    if (error != std::errc()) return std::nullopt;
    writer.remove_prefix(static_cast<std::size_t>(stop - writer.data()));
    if (!writer.starts_with('.')) break;
    writer.remove_prefix(1);
  }
  return version;
}

}  // namespace

const char* const kWriter = "cairn " CAIRN_VERSION;

bool is_newer_cairn(std::string_view writer) {
  const auto version = version_of(writer);
  return version && *version > version_of(kWriter);
}

}  // namespace cairn

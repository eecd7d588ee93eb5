// MicrobatchSize: how many samples a device computes at once, where Composer takes
// Union[int, str].
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// A number of samples, or "auto". Throws UsageError for any other text.
class MicrobatchSize {
 public:
  // NOLINTBEGIN(google-explicit-constructor): options read like Python
  template <std::integral Int>
  requires(!std::same_as<Int, bool>) MicrobatchSize(Int samples)
      : samples_(static_cast<std::int64_t>(samples)) {}
  MicrobatchSize(const char* text) : MicrobatchSize(std::string(text)) {}
  MicrobatchSize(const std::string& text);
  // NOLINTEND(google-explicit-constructor)

  bool is_auto() const { return !samples_; }
  // nullopt: "auto".
  std::optional<std::int64_t> samples() const { return samples_; }

 private:
  std::optional<std::int64_t> samples_;
};

}  // namespace cairn

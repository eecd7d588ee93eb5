// Statistics of the elements of a tensor, computed in two passes over pieces of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cairn/tensor.h"

namespace cairn::cli {

inline constexpr std::size_t kHistogramBins = 16;

// About the numbers in the elements. In a sub-byte dtype, each number that is packed into a byte
// counts. A complex number counts once, by its magnitude.
struct TensorStats {
  std::uint64_t count = 0;
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
  std::uint64_t zeros = 0;
  // Statistics of the finite numbers; nullopt if there are none.
  struct Finite {
    double min = 0;
    double max = 0;
    double mean = 0;
    double std = 0;  // of a sample, like torch.std(); 0 for one number
    std::array<std::uint64_t, kHistogramBins> histogram = {};  // equal bins from min to max
  };
  std::optional<Finite> finite = std::nullopt;

  double zero_share() const;
};

// Throws CorruptError for a tensor that reaches outside its storage.
TensorStats tensor_stats(const TensorView& tensor);

// "▁▂█▄ ": one column per bin; its height shows the count.
std::string sparkline(const std::array<std::uint64_t, kHistogramBins>& histogram);

}  // namespace cairn::cli

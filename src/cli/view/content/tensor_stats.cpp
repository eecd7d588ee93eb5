#include "cli/view/content/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "value/numbers.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kStatsPieceElements = std::size_t{1} << 16;

bool is_complex(DType dtype) {
  return dtype == DType::kComplex32 || dtype == DType::kComplex64 || dtype == DType::kComplex128;
}

void for_each_piece_of_numbers(const TensorView& tensor,
                               const std::function<void(std::span<const double>)>& use) {
  TensorPieces pieces(tensor, kStatsPieceElements);
  std::vector<double> numbers;
  for (ByteView piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    decode_numbers(tensor.dtype, piece, numbers);
    if (is_complex(tensor.dtype)) {
      for (std::size_t i = 0; i < numbers.size() / 2; ++i) {
        numbers[i] = std::hypot(numbers[2 * i], numbers[2 * i + 1]);
      }
      numbers.resize(numbers.size() / 2);
    }
    use(numbers);
  }
}

// Sums each piece around the piece's own mean, and combines the pieces by Chan's formula. So
// neither many numbers nor a mean far from zero cost precision.
class Moments {
 public:
  void add(std::span<const double> numbers) {
    double sum = 0;
    std::uint64_t finite = 0;
    for (const double x : numbers) {
      zeros_ += x == 0 ? 1 : 0;
      nan_ += std::isnan(x) ? 1 : 0;
      if (!std::isfinite(x)) continue;
      sum += x;
      min_ = std::min(min_, x);
      max_ = std::max(max_, x);
      ++finite;
    }
    count_ += numbers.size();
    if (finite > 0) add_piece(numbers, sum / static_cast<double>(finite), finite);
  }

  TensorStats stats() const {
    TensorStats stats{
        .count = count_, .nan = nan_, .inf = count_ - nan_ - finite_, .zeros = zeros_};
    if (finite_ == 0) return stats;
    const double degrees = std::max(1.0, static_cast<double>(finite_) - 1);
    stats.finite = {.min = min_, .max = max_, .mean = mean_, .std = std::sqrt(squares_ / degrees)};
    return stats;
  }

 private:
  void add_piece(std::span<const double> numbers, double mean, std::uint64_t finite) {
    double squares = 0;
    for (const double x : numbers) {
      if (std::isfinite(x)) squares += (x - mean) * (x - mean);
    }
    const auto before = static_cast<double>(finite_);
    const auto added = static_cast<double>(finite);
    const double shift = mean - mean_;
    squares_ += squares + shift * shift * (before / (before + added)) * added;
    mean_ += shift * (added / (before + added));
    finite_ += finite;
  }

  std::uint64_t count_ = 0;
  std::uint64_t nan_ = 0;
  std::uint64_t zeros_ = 0;
  std::uint64_t finite_ = 0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  double mean_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean
};

void fill_histogram(const TensorView& tensor, TensorStats::Finite& finite) {
  // Halves, because the width itself may exceed the largest double.
  const double half_width = finite.max / 2 - finite.min / 2;
  for_each_piece_of_numbers(tensor, [&](std::span<const double> numbers) {
    for (const double x : numbers) {
      if (!std::isfinite(x)) continue;
      const double place = half_width > 0 ? (x / 2 - finite.min / 2) / half_width : 0;
      const auto bin = static_cast<std::size_t>(place * kHistogramBins);
      ++finite.histogram[std::min(bin, kHistogramBins - 1)];
    }
  });
}

}  // namespace

double TensorStats::zero_share() const {
  return count == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(count);
}

TensorStats tensor_stats(const TensorView& tensor) {
  TensorView loaded = tensor;
  if (tensor.storage != nullptr && !tensor.storage->try_view()) {  // load once for both passes
    const Reach reach = reach_of(tensor);
    loaded.storage = storage_of(tensor.storage->bytes(reach.offset, reach.size));
    loaded.storage_offset = 0;
  }
  Moments moments;
  for_each_piece_of_numbers(loaded, [&](std::span<const double> numbers) { moments.add(numbers); });
  TensorStats stats = moments.stats();
  if (stats.finite) fill_histogram(loaded, *stats.finite);
  return stats;
}

std::string sparkline(const std::array<std::uint64_t, kHistogramBins>& histogram) {
  constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::uint64_t most = *std::max_element(histogram.begin(), histogram.end());
  std::string line;
  for (const std::uint64_t count : histogram) {
    if (count == 0) {
      line += " ";
      continue;
    }
    const double height = static_cast<double>(count) / static_cast<double>(most);
    const auto block = static_cast<std::size_t>(std::ceil(height * kBlocks.size())) - 1;
    line += kBlocks[std::min(block, kBlocks.size() - 1)];
  }
  return line;
}

}  // namespace cairn::cli

#include "cli/view/content/compare_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/little_endian.h"
#include "value/numbers.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kComparePieceElements = std::size_t{1} << 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double distance_of_numbers(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double distance = std::abs(a - b);
  if (!std::isfinite(distance)) return kInfinity;
  return distance;
}

// For 64-bit integers: doubles would round the integers before the subtraction.
template <class T>
double distance_of_integers(const std::byte* a, const std::byte* b) {
  const auto x = static_cast<T>(load_little_endian<std::uint64_t>(a));
  const auto y = static_cast<T>(load_little_endian<std::uint64_t>(b));
  const auto [low, high] = std::minmax(x, y);
  return static_cast<double>(static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low));
}

class Comparison {
 public:
  Comparison(const TensorView& a, const TensorView& b, std::optional<double> atol)
      : a_(a),
        b_(b),
        atol_(atol.value_or(0)),
        by_bits_(a.dtype == b.dtype && !atol),
        is_complex_(numbers_per_element(a.dtype) == 2 && item_size(a.dtype) > 1) {}

  TensorDistance run() {
    TensorPieces pieces_of_a(a_, kComparePieceElements);
    TensorPieces pieces_of_b(b_, kComparePieceElements);
    for (;;) {
      const ByteView a = pieces_of_a.next();
      const ByteView b = pieces_of_b.next();
      if (a.empty()) break;
      distance_.elements += a.size() / item_size(a_.dtype);
      const bool is_same = a_.dtype == b_.dtype && std::memcmp(a.data(), b.data(), a.size()) == 0;
      if (!is_same) compare(a, b);
    }
    if (distance_.elements > 0) {
      distance_.mean_abs = sum_ / static_cast<double>(distance_.elements);
    }
    return distance_;
  }

 private:
  void compare(ByteView a, ByteView b) {
    decode_numbers(a_.dtype, a, numbers_of_a_);
    decode_numbers(b_.dtype, b, numbers_of_b_);
    const std::size_t item_a = item_size(a_.dtype);
    const std::size_t item_b = item_size(b_.dtype);
    for (std::size_t i = 0; i < a.size() / item_a; ++i) {
      const std::byte* at_a = a.data() + i * item_a;
      const std::byte* at_b = b.data() + i * item_b;
      const bool has_other_bits = !by_bits_ || std::memcmp(at_a, at_b, item_a) != 0;
      if (!has_other_bits) continue;
      const double distance = element_distance(at_a, at_b, i);
      if (by_bits_ || distance > atol_) ++distance_.differing;
      distance_.max_abs = std::max(distance_.max_abs, distance);
      sum_ += distance;
    }
  }

  double element_distance(const std::byte* a, const std::byte* b, std::size_t element) const {
    if (a_.dtype == b_.dtype && a_.dtype == DType::kInt64) {
      return distance_of_integers<std::int64_t>(a, b);
    }
    if (a_.dtype == b_.dtype && a_.dtype == DType::kUInt64) {
      return distance_of_integers<std::uint64_t>(a, b);
    }
    const std::size_t count = numbers_per_element(a_.dtype);
    const double* x = numbers_of_a_.data() + element * count;
    const double* y = numbers_of_b_.data() + element * count;
    if (is_complex_) {
      return std::hypot(distance_of_numbers(x[0], y[0]), distance_of_numbers(x[1], y[1]));
    }
    double most = 0;  // the largest distance of the numbers packed into the element
    for (std::size_t i = 0; i < count; ++i) {
      most = std::max(most, distance_of_numbers(x[i], y[i]));
    }
    return most;
  }

  const TensorView& a_;
  const TensorView& b_;
  double atol_;
  bool by_bits_;
  bool is_complex_;
  std::vector<double> numbers_of_a_;
  std::vector<double> numbers_of_b_;
  TensorDistance distance_;
  double sum_ = 0;
};

// Whether the elements of both dtypes are numbers of one kind.
bool are_comparable(DType a, DType b) {
  const auto kind = [](DType dtype) {
    const std::size_t numbers = numbers_per_element(dtype);
    return std::pair(numbers, numbers > 1 && item_size(dtype) == 1);  // packed, or complex
  };
  return kind(a) == kind(b);
}

}  // namespace

std::optional<TensorDistance> compare_tensors(const TensorView& a, const TensorView& b,
                                              std::optional<double> atol) {
  if (!are_comparable(a.dtype, b.dtype)) return std::nullopt;
  return Comparison(a, b, atol).run();
}

}  // namespace cairn::cli

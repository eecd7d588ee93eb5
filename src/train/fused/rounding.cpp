#include "train/fused/rounding.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "train/fused/arithmetic.h"

namespace cairn::fused {
namespace {

// ATen computes the elements after the last whole vector in another way.
constexpr std::int64_t kInVectors = 4096;
constexpr std::int64_t kCount = kInVectors + 31;

// Numbers of both signs and different sizes; with other `phase`, other numbers.
at::Tensor numbers(double phase, c10::ScalarType type) {
  std::vector<double> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(phase * static_cast<double>(i + 1)) * std::exp(std::cos(double(i)) * 3);
  }
  return torch::tensor(values, at::kDouble).to(type);
}

// Compares the elements [begin, end) of the operators' results.
template <class T>
class Comparison {
 public:
  explicit Comparison(c10::ScalarType type, std::int64_t begin = 0, std::int64_t end = kCount)
      : begin_(begin),
        end_(end),
        x_(numbers(0.7, type)),
        y_(numbers(1.3, type)),
        z_(numbers(2.1, type).abs().add(0.1)) {}

  template <bool kFma>
  bool holds() const {
    const double s = 1 - 0.9;
    const T t = T(s);
    bool is_same = true;
    for (const double weight : {s, 0.7}) {
      const auto expected = [weight](T x, T y, T) { return lerp<kFma>(x, y, weight); };
      const Comparison cancelling = with_x(y_.mul(-weight / (1 - weight)));
      is_same = is_same && agree(x_.lerp(y_, weight), expected) &&
                cancelling.agree(cancelling.x_.lerp(y_, weight), expected);
    }
    const auto product = [s](T x, T y, T z) { return add_product<kFma>(x, s, y, z); };
    const Comparison cancelling = with_x(y_.mul(z_).mul_(-s));
    return is_same &&
           agree(x_.add(y_, s), [s](T x, T y, T) { return add_scaled<kFma>(x, s, y); }) &&
           agree(x_.addcmul(y_, z_, s), product) &&
           cancelling.agree(cancelling.x_.addcmul(y_, z_, s), product) &&
           agree(x_.addcdiv(y_, z_, s), [s](T x, T y, T z) { return add_quotient(x, s, y, z); }) &&
           agree(x_.mul(s), [t](T x, T, T) { return x * t; }) &&
           agree(x_.div(s), [t](T x, T, T) { return x / t; }) &&
           agree(x_.div(z_), [](T x, T, T z) { return x / z; }) &&
           agree(s / z_, [t](T, T, T z) { return t / z; }) &&
           agree(x_.mul(y_), [](T x, T y, T) { return x * y; }) &&
           agree(x_.sub(y_), [](T x, T y, T) { return x - y; }) &&
           agree(x_.add(s), [t](T x, T, T) { return x + t; }) &&
           agree(z_.sqrt(), [](T, T, T z) { return square_root(z); }) &&
           agree(at::maximum(x_, y_), [](T x, T y, T) { return maximum(x, y); });
  }

 private:
  // For sums of which little is left: these show in all types how a product was rounded.
  Comparison with_x(at::Tensor x) const {
    Comparison other = *this;
    other.x_ = std::move(x);
    return other;
  }
  bool agree(const at::Tensor& found, auto expected) const {
    const auto* x = elements_of(x_);
    const auto* y = elements_of(y_);
    const auto* z = elements_of(z_);
    const auto* here = elements_of(found);
    for (std::int64_t i = begin_; i < end_; ++i) {
      const Stored value = expected(x[i], y[i], z[i]);
      if (std::memcmp(&value, here + i, sizeof value) != 0) return false;
    }
    return true;
  }
  using Stored = typename TypesOf<T>::Stored;
  static const Stored* elements_of(const at::Tensor& tensor) {
    return static_cast<const Stored*>(tensor.data_ptr());
  }

  std::int64_t begin_;
  std::int64_t end_;
  at::Tensor x_;
  at::Tensor y_;
  at::Tensor z_;
};

template <class T>
Rounding compare(c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  const Comparison<T> comparison(type);
  if (comparison.template holds<true>()) return Rounding::kOnce;
  return comparison.template holds<false>() ? Rounding::kTwice : Rounding::kUnknown;
}

// The number of elements that a thread takes of a tensor with `count` elements (at::parallel_for()
// with the grain size of at::TensorIterator).
std::int64_t share_of_thread(std::int64_t count) {
  const std::int64_t grain = at::internal::GRAIN_SIZE;
  if (count <= grain || at::in_parallel_region()) return count;
  return at::divup(count, std::min<std::int64_t>(at::get_num_threads(), at::divup(count, grain)));
}

// A thread takes `block` elements of its share at a time, and the rest one by one.
std::vector<Part> parts_of_bfloat16(std::int64_t count, std::int64_t block) {
  const std::int64_t share = share_of_thread(count);
  std::vector<Part> parts;
  for (std::int64_t begin = 0; begin < count; begin += share) {
    const std::int64_t size = std::min(share, count - begin);
    parts.push_back({Element::kBfloat16InVector, size - size % block});
    parts.push_back({Element::kBfloat16, size % block});
  }
  return parts;
}

// Whether parts_of_bfloat16() are ATen's.
bool has_parts(std::int64_t count, std::int64_t block) {
  // kFactor^2 is 1 + 2^-6 + 2^-14. Where this is rounded to 1 + 2^-6, the sum is 0.
  constexpr double kFactor = 1 + 0x1p-7;
  const at::Tensor factors = at::full({count}, kFactor, at::kBFloat16);
  const at::Tensor sums = at::full({count}, -1 - 0x1p-6, at::kBFloat16).add(factors, kFactor);
  std::int64_t begin = 0;
  for (const Part& part : parts_of_bfloat16(count, block)) {
    const at::Tensor rounds_once = sums.narrow(0, begin, part.size) != 0;
    const bool in_vector = part.element == Element::kBfloat16InVector;
    if (!(in_vector ? rounds_once.all() : ~rounds_once.any()).item<bool>()) return false;
    begin += part.size;
  }
  return true;
}

struct Bfloat16Rounding {
  Rounding rounding = Rounding::kUnknown;
  std::int64_t block = 0;  // with kOnce
};

Bfloat16Rounding compare_bfloat16() {
  const at::NoGradGuard no_grad;
  const bool in_vectors = Comparison<Bfloat16<true>>(at::kBFloat16, 0, kInVectors).holds<true>();
  if (!in_vectors) {
    const bool is_twice = Comparison<Bfloat16<false>>(at::kBFloat16).holds<false>();
    return {is_twice ? Rounding::kTwice : Rounding::kUnknown};
  }
  if (!Comparison<Bfloat16<false>>(at::kBFloat16, kInVectors, kCount).holds<true>()) return {};
  for (const std::int64_t block : {32, 64}) {  // with AVX2, with AVX-512
    if (has_parts(127, block) && has_parts(3 * at::internal::GRAIN_SIZE + 101, block))
      return {Rounding::kOnce, block};
  }
  return {};
}

const Bfloat16Rounding& bfloat16_rounding() {
  static const Bfloat16Rounding kFound = compare_bfloat16();
  return kFound;
}

}  // namespace

Rounding rounding_of(c10::ScalarType type) {
  if (type == at::kFloat) {
    static const Rounding kFound = compare<float>(at::kFloat);
    return kFound;
  }
  if (type == at::kDouble) {
    static const Rounding kFound = compare<double>(at::kDouble);
    return kFound;
  }
  return type == at::kBFloat16 ? bfloat16_rounding().rounding : Rounding::kUnknown;
}

std::string rounding_problem(c10::ScalarType type, Rounding rounding) {
  if (rounding != Rounding::kUnknown) return "";
  return fmt::format(
      "optimizers step parameters of {} by one operator after another, which is slower: cairn has "
      "no kernels that round as this libtorch does",
      c10::toString(type));
}

std::vector<Part> parts_of(c10::ScalarType type, std::int64_t count) {
  if (type == at::kFloat) return {{Element::kFloat, count}};
  if (type == at::kDouble) return {{Element::kDouble, count}};
  const auto& [rounding, block] = bfloat16_rounding();
  if (rounding == Rounding::kTwice) return {{Element::kBfloat16, count}};
  return parts_of_bfloat16(count, block);
}

}  // namespace cairn::fused

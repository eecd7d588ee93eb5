#include "train/fused/rounding.h"

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "train/fused/arithmetic.h"

namespace cairn::fused {
namespace {

// Not a multiple of a vector's size: ATen computes the last elements in another way.
constexpr std::int64_t kCount = 4099;

// Numbers of both signs and different sizes; with other `phase`, other numbers.
at::Tensor numbers(double phase, c10::ScalarType type) {
  std::vector<double> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(phase * static_cast<double>(i + 1)) * std::exp(std::cos(double(i)) * 3);
  }
  return torch::tensor(values, at::kDouble).to(type);
}

template <class T>
class Comparison {
 public:
  explicit Comparison(c10::ScalarType type)
      : x_(numbers(0.7, type)), y_(numbers(1.3, type)), z_(numbers(2.1, type).abs().add(0.1)) {}

  template <bool kFma>
  bool holds() const {
    const double s = 1 - 0.9;
    const T t = T(s);
    bool is_same = true;
    for (const double weight : {s, 0.7}) {
      is_same = is_same && agree(x_.lerp(y_, weight),
                                 [weight](T x, T y, T) { return lerp<kFma, T>(x, y, T(weight)); });
    }
    return is_same &&
           agree(x_.add(y_, s), [t](T x, T y, T) { return add_scaled<kFma, T>(x, t, y); }) &&
           agree(x_.addcmul(y_, z_, s),
                 [t](T x, T y, T z) { return add_product<kFma, T>(x, t, y, z); }) &&
           agree(x_.addcdiv(y_, z_, s), [t](T x, T y, T z) { return add_quotient(x, t, y, z); }) &&
           agree(x_.mul(s), [t](T x, T, T) { return x * t; }) &&
           agree(x_.div(s), [t](T x, T, T) { return x / t; }) &&
           agree(x_.div(z_), [](T x, T, T z) { return x / z; }) &&
           agree(s / z_, [t](T, T, T z) { return t / z; }) &&
           agree(x_.mul(y_), [](T x, T y, T) { return x * y; }) &&
           agree(x_.add(s), [t](T x, T, T) { return x + t; }) &&
           agree(z_.sqrt(), [](T, T, T z) { return square_root(z); }) &&
           agree(at::maximum(x_, y_), [](T x, T y, T) { return maximum(x, y); });
  }

 private:
  bool agree(const at::Tensor& found, auto expected) const {
    const T* x = x_.data_ptr<T>();
    const T* y = y_.data_ptr<T>();
    const T* z = z_.data_ptr<T>();
    const T* here = found.data_ptr<T>();
    for (std::int64_t i = 0; i < kCount; ++i) {
      const T value = expected(x[i], y[i], z[i]);
      if (std::memcmp(&value, here + i, sizeof value) != 0) return false;
    }
    return true;
  }

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
  return Rounding::kUnknown;
}

std::string rounding_problem(Rounding rounding) {
  if (rounding != Rounding::kUnknown) return "";
  return "optimizers step by one operator after another, which is slower: the operators of this "
         "libtorch do not round as those of its releases do";
}

}  // namespace cairn::fused

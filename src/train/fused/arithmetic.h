// The arithmetic of ATen's operators on one element, and the optimizers' steps that are made of it.
//
// A step of an optimizer that calls ATen's operators one after another reads and writes all memory
// once for each operator. The functions here compute the same bits in one pass. ATen compiled for
// processors with FMA rounds a product and the sum after it once (kFma); otherwise it rounds twice.
// rounding.h finds out which of the two this libtorch does.
//
// This header is compiled for several instruction sets (kernels_*.cpp). So it must not use any
// inline function of another header: the linker may keep the copy for the newest processor.
#pragma once

namespace cairn::fused {

// bfloat16 in memory.
struct Bfloat16Bits {
  unsigned short bits;
};

// A number of bfloat16 in a step: a float that every operator rounds to nearest, ties to even.
// `kInVector`: ATen has the number in a whole vector, where its add() and its NaN are others
// (parts_of() in rounding.h).
template <bool kInVector>
class Bfloat16 {
 public:
  inline __attribute__((always_inline)) Bfloat16(double x) : value_(rounded(float(x))) {}
  inline __attribute__((always_inline)) Bfloat16(Bfloat16Bits x)
      : value_(__builtin_bit_cast(float, unsigned{x.bits} << 16)) {}

  inline __attribute__((always_inline)) operator float() const { return value_; }
  inline __attribute__((always_inline)) operator Bfloat16Bits() const {
    constexpr unsigned kNan = kInVector ? 0xffff : 0x7fc0;
    const unsigned bits = __builtin_bit_cast(unsigned, value_) >> 16;
    return {static_cast<unsigned short>(value_ == value_ ? bits : kNan)};
  }

  friend inline __attribute__((always_inline)) Bfloat16 operator+(Bfloat16 a, Bfloat16 b) {
    return a.value_ + b.value_;
  }
  friend inline __attribute__((always_inline)) Bfloat16 operator-(Bfloat16 a, Bfloat16 b) {
    return a.value_ - b.value_;
  }
  friend inline __attribute__((always_inline)) Bfloat16 operator*(Bfloat16 a, Bfloat16 b) {
    return a.value_ * b.value_;
  }
  friend inline __attribute__((always_inline)) Bfloat16 operator/(Bfloat16 a, Bfloat16 b) {
    return a.value_ / b.value_;
  }
  inline __attribute__((always_inline)) Bfloat16& operator*=(Bfloat16 x) {
    return *this = *this * x;
  }

 private:
  // NaN stays NaN: its lower half is zero.
  static inline __attribute__((always_inline)) float rounded(float x) {
    const unsigned bits = __builtin_bit_cast(unsigned, x);
    return __builtin_bit_cast(float, (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  }

  float value_;
};

// Stored: a T in memory. Wide: the type in which ATen computes lerp(), addcmul() and addcdiv(), and
// of their scalars. The scalars of all other operators are converted to T.
template <class T>
struct TypesOf {
  using Stored = T;
  using Wide = T;
};
template <bool kInVector>
struct TypesOf<Bfloat16<kInVector>> {
  using Stored = Bfloat16Bits;
  using Wide = float;
};

// a * b + c, for float and double.
template <bool kFma, class T>
inline __attribute__((always_inline)) T multiply_add(T a, T b, T c) {
  if constexpr (!kFma) return a * b + c;
  if constexpr (sizeof(T) == sizeof(float)) return __builtin_fmaf(a, b, c);
  return __builtin_fma(a, b, c);
}

// y + a * x: Tensor::add(x, a).
template <bool kFma, class T>
inline __attribute__((always_inline)) T add_scaled(T y, double a, T x) {
  return multiply_add<kFma, T>(T(a), x, y);
}
template <bool kFma, bool kInVector>
inline __attribute__((always_inline)) Bfloat16<kInVector> add_scaled(Bfloat16<kInVector> y,
                                                                     double a,
                                                                     Bfloat16<kInVector> x) {
  const Bfloat16<kInVector> factor = a;
  if constexpr (kFma && kInVector) return multiply_add<true, float>(factor, x, y);
  return y + factor * x;
}

// Tensor::lerp(end, weight).
template <bool kFma, class T>
inline __attribute__((always_inline)) T lerp(T start, T end, double weight) {
  using Wide = typename TypesOf<T>::Wide;
  const Wide part = Wide(weight);
  const Wide change = Wide(end) - Wide(start);
  const bool is_small = (part < 0 ? -part : part) < Wide(0.5);
  return is_small ? multiply_add<kFma, Wide>(part, change, start)
                  : multiply_add<kFma, Wide>(Wide(1) - part, -change, end);
}

// y + s * a * b: Tensor::addcmul(a, b, s).
template <bool kFma, class T>
inline __attribute__((always_inline)) T add_product(T y, double s, T a, T b) {
  using Wide = typename TypesOf<T>::Wide;
  return multiply_add<kFma, Wide>(Wide(s) * Wide(a), b, y);
}

// y + s * a / b: Tensor::addcdiv(a, b, s). ATen never contracts it.
template <class T>
inline __attribute__((always_inline)) T add_quotient(T y, double s, T a, T b) {
  using Wide = typename TypesOf<T>::Wide;
  return Wide(y) + Wide(s) * Wide(a) / Wide(b);
}

template <class T>
inline __attribute__((always_inline)) T square_root(T x) {
  if constexpr (sizeof(T) == sizeof(float)) return __builtin_sqrtf(x);
  return __builtin_sqrt(x);
}

// at::maximum(): NaN if one is NaN.
template <class T>
inline __attribute__((always_inline)) T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}

// --- Steps ---------------------------------------------------------------------------------------
// A step holds the coefficients of one parameter, which apply() converts to the type of the tensors
// as ATen does. apply() steps one element: `w` is the parameter, and `g` its gradient. The other
// arguments are the states; uses() says which of them a step has. Its flags choose the kernel.

// Adam, AdamW and DecoupledAdamW (optim/adam.cpp).
struct Adam {
  enum Flag : unsigned { kAddsDecay = 1, kAmsgrad = 2, kScalesMoment = 4 };
  static constexpr unsigned kFlagBits = 3;
  // States: exp_avg, exp_avg_sq, max_exp_avg_sq.
  static constexpr bool uses(unsigned flags, int state) {
    return state < 2 || (flags & kAmsgrad) != 0;
  }

  unsigned flags = 0;
  double keep = 1;   // the parameter is multiplied by it first: decoupled weight decay
  double decay = 0;  // with kAddsDecay: the gradient gets decay * parameter
  double beta1 = 0;
  double beta2 = 0;
  double root = 1;  // of 1 - beta2^k
  double eps = 0;
  double rate = 0;  // -lr / (1 - beta1^k)
  // For libtorch's own fused step (list_step.cpp).
  double lr = 0;
  long long count = 0;  // k

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& w, T g, T& m, T& v, T& largest) const {
    w *= T(keep);
    if constexpr ((kFlags & kAddsDecay) != 0) g = add_scaled<kFma>(g, decay, w);
    if constexpr ((kFlags & kScalesMoment) != 0) {
      m = add_scaled<kFma>(m * T(beta1), 1 - beta1, g);
    } else {
      m = lerp<kFma>(m, g, 1 - beta1);
    }
    v = add_product<kFma>(v * T(beta2), 1 - beta2, g, g);
    T second = v;
    if constexpr ((kFlags & kAmsgrad) != 0) second = largest = maximum(largest, v);
    w = add_quotient(w, rate, m, square_root(second) / T(root) + T(eps));
  }
};

// SGD and DecoupledSGDW, from the second step on: the first one copies the gradient.
struct Sgd {
  enum Flag : unsigned { kAddsDecay = 1, kMomentum = 2, kNesterov = 4 };
  static constexpr unsigned kFlagBits = 3;
  // States: momentum_buffer.
  static constexpr bool uses(unsigned flags, int state) {
    return state == 0 && (flags & kMomentum) != 0;
  }

  unsigned flags = 0;
  double keep = 1;   // the parameter is multiplied by it before the step
  double decay = 0;  // with kAddsDecay: the gradient gets decay * parameter
  double momentum = 0;
  double dampening = 0;
  double rate = 0;  // -lr

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& w, T g, T& buffer, T&, T&) const {
    if constexpr ((kFlags & kAddsDecay) != 0) g = add_scaled<kFma>(g, decay, w);
    if constexpr ((kFlags & kMomentum) != 0) {
      buffer = add_scaled<kFma>(buffer * T(momentum), 1 - dampening, g);
      g = (kFlags & kNesterov) != 0 ? add_scaled<kFma>(g, momentum, buffer) : buffer;
    }
    w = add_scaled<kFma>(w * T(keep), rate, g);
  }
};

// RMSprop (optim/rmsprop.cpp).
struct Rmsprop {
  enum Flag : unsigned { kAddsDecay = 1, kCentered = 2, kMomentum = 4 };
  static constexpr unsigned kFlagBits = 3;
  // States: square_avg, grad_avg, momentum_buffer.
  static constexpr bool uses(unsigned flags, int state) {
    return state == 0 || (flags & (state == 1 ? kCentered : kMomentum)) != 0;
  }

  unsigned flags = 0;
  double decay = 0;
  double alpha = 0;
  double eps = 0;
  double momentum = 0;
  double rate = 0;  // -lr

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& w, T g, T& square, T& average,
                                                   T& buffer) const {
    if constexpr ((kFlags & kAddsDecay) != 0) g = add_scaled<kFma>(g, decay, w);
    square = add_product<kFma>(square * T(alpha), 1 - alpha, g, g);
    T norm = square;
    if constexpr ((kFlags & kCentered) != 0) {
      average = lerp<kFma>(average, g, 1 - alpha);
      norm = add_product<kFma>(norm, -1, average, average);
    }
    norm = square_root(norm) + T(eps);
    if constexpr ((kFlags & kMomentum) != 0) {
      buffer = add_quotient(buffer * T(momentum), 1, g, norm);
      w = add_scaled<kFma>(w, rate, buffer);
    } else {
      w = add_quotient(w, rate, g, norm);
    }
  }
};

// Adagrad (optim/adagrad.cpp).
struct Adagrad {
  enum Flag : unsigned { kAddsDecay = 1 };
  static constexpr unsigned kFlagBits = 1;
  // States: sum.
  static constexpr bool uses(unsigned /*flags*/, int state) { return state == 0; }

  unsigned flags = 0;
  double decay = 0;
  double eps = 0;
  double rate = 0;  // -lr / (1 + (k - 1) * lr_decay)

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& w, T g, T& sum, T&, T&) const {
    if constexpr ((kFlags & kAddsDecay) != 0) g = add_scaled<kFma>(g, decay, w);
    sum = add_product<kFma>(sum, 1, g, g);
    w = add_quotient(w, rate, g, square_root(sum) + T(eps));
  }
};

// NAdam (optim/nadam.cpp).
struct Nadam {
  enum Flag : unsigned { kAddsDecay = 1 };
  static constexpr unsigned kFlagBits = 1;
  // States: exp_avg, exp_avg_sq.
  static constexpr bool uses(unsigned /*flags*/, int state) { return state < 2; }

  unsigned flags = 0;
  double keep = 1;
  double decay = 0;
  double beta1 = 0;
  double beta2 = 0;
  double correction = 1;  // 1 - beta2^k
  double eps = 0;
  double gradient_rate = 0;
  double moment_rate = 0;

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& w, T g, T& m, T& v, T&) const {
    w *= T(keep);
    if constexpr ((kFlags & kAddsDecay) != 0) g = add_scaled<kFma>(g, decay, w);
    m = lerp<kFma>(m, g, 1 - beta1);
    v = add_product<kFma>(v * T(beta2), 1 - beta2, g, g);
    const T norm = square_root(v / T(correction)) + T(eps);
    w = add_quotient(w, gradient_rate, g, norm);
    w = add_quotient(w, moment_rate, m, norm);
  }
};

// RAdam (optim/radam.cpp).
struct Radam {
  enum Flag : unsigned { kAddsDecay = 1, kRectified = 2 };
  static constexpr unsigned kFlagBits = 2;
  // States: exp_avg, exp_avg_sq.
  static constexpr bool uses(unsigned /*flags*/, int state) { return state < 2; }

  unsigned flags = 0;
  double keep = 1;
  double decay = 0;
  double beta1 = 0;
  double beta2 = 0;
  double correction = 1;  // 1 - beta1^k
  double root = 1;        // of 1 - beta2^k
  double eps = 0;
  double rectification = 1;
  double lr = 0;

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& w, T g, T& m, T& v, T&) const {
    w *= T(keep);
    if constexpr ((kFlags & kAddsDecay) != 0) g = add_scaled<kFma>(g, decay, w);
    m = lerp<kFma>(m, g, 1 - beta1);
    v = add_product<kFma>(v * T(beta2), 1 - beta2, g, g);
    T change = m / T(correction) * T(lr);
    if constexpr ((kFlags & kRectified) != 0) {
      change = change * (T(root) / (square_root(v) + T(eps))) * T(rectification);
    }
    w = w - change;
  }
};

// A moving average (algorithms/ema.cpp): the average is the parameter, and the present weight the
// gradient.
struct Average {
  static constexpr unsigned kFlagBits = 0;
  static constexpr bool uses(unsigned /*flags*/, int /*state*/) { return false; }

  unsigned flags = 0;
  double smoothing = 0;

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& average, T now, T&, T&, T&) const {
    average = add_scaled<kFma>(average * T(smoothing), 1 - smoothing, now);
  }
};

// --- Steps without a gradient --------------------------------------------------------------------
// They change one tensor, here a gradient: it is the parameter of the step. kIsAlone says so.

struct Scale {
  static constexpr bool kIsAlone = true;
  static constexpr unsigned kFlagBits = 0;
  static constexpr bool uses(unsigned /*flags*/, int /*state*/) { return false; }

  unsigned flags = 0;
  double factor = 1;

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& x, T, T&, T&, T&) const {
    x *= T(factor);
  }
};

// Tensor::clamp_(-limit, limit): NaN stays.
struct Clamp {
  static constexpr bool kIsAlone = true;
  static constexpr unsigned kFlagBits = 0;
  static constexpr bool uses(unsigned /*flags*/, int /*state*/) { return false; }

  unsigned flags = 0;
  double limit = 0;

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& x, T, T&, T&, T&) const {
    x = x < T(-limit) ? T(-limit) : x;
    x = x > T(limit) ? T(limit) : x;
  }
};

// Scales a gradient, and notes whether an element was infinite or NaN (loop/scaler.cpp).
struct Unscale {
  static constexpr bool kIsAlone = true;
  static constexpr unsigned kFlagBits = 0;
  static constexpr bool uses(unsigned /*flags*/, int /*state*/) { return false; }

  unsigned flags = 0;
  double factor = 1;
  bool* found_inf = nullptr;  // set to true by any thread
  unsigned bad = 0;

  template <class T, unsigned kFlags, bool kFma>
  inline __attribute__((always_inline)) void apply(T& x, T, T&, T&, T&) {
    bad |= x - x == T(0) ? 0U : 1U;
    x *= T(factor);
  }
  inline __attribute__((always_inline)) void finish() const {
    if (bad != 0) __atomic_store_n(found_inf, true, __ATOMIC_RELAXED);
  }
};

}  // namespace cairn::fused

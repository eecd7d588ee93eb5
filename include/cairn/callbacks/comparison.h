// Comparison: whether a metric is better than before, or past a threshold.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <utility>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Whether a value is better than another one: "less" ("lt"), "greater" ("gt"), or a function, which
// is called on the training thread.
class Comparison {
 public:
  using Function = std::function<bool(double value, double other)>;

  // NOLINTBEGIN(google-explicit-constructor)
  Comparison(std::nullptr_t = nullptr) {}
  Comparison(const char* name);  // UsageError for another name
  Comparison(const std::string& name) : Comparison(name.c_str()) {}
  template <std::convertible_to<Function> F>
  requires(!std::convertible_to<F, std::string>) Comparison(F function)
      : function_(std::move(function)) {}
  // NOLINTEND(google-explicit-constructor)

  explicit operator bool() const { return static_cast<bool>(function_); }
  bool operator()(double value, double other) const { return function_(value, other); }

 private:
  Function function_;
};

}  // namespace cairn

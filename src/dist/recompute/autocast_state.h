// Autocast of a thread: what libtorch's functions get and set one by one, and its versions call
// differently.
#pragma once

#include <ATen/core/Tensor.h>

namespace cairn {

struct AutocastState {
  struct Kind {
    bool is_enabled = false;
    at::ScalarType dtype = at::kFloat;
  };
  Kind cpu = {};
  Kind cuda = {};
  bool uses_cache = true;  // Weights are cast once for all operations of a forward.

  static AutocastState current();
  void make_current() const;
};

// Makes a state this thread's while it lives.
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& state);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const AutocastState before_;
};

}  // namespace cairn

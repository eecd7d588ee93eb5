// Counts the operators that a thread calls while an object lives. Operators that are called inside
// others do not count.
#pragma once

#include <torch/torch.h>

#include <memory>

namespace cairn::testing {

class OperatorCount {
 public:
  OperatorCount() {
    open() = 0;
    count() = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::FUNCTION}));
  }
  OperatorCount(const OperatorCount&) = delete;
  OperatorCount& operator=(const OperatorCount&) = delete;
  ~OperatorCount() { at::removeCallback(handle_); }

  int calls() const { return count(); }

 private:
  static int& open() {
    static thread_local int number = 0;
    return number;
  }
  static int& count() {
    static thread_local int number = 0;
    return number;
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& /*call*/) {
    if (open()++ == 0) ++count();
    return nullptr;
  }
  static void end(const at::RecordFunction& /*call*/, at::ObserverContext* /*context*/) {
    --open();
  }

  at::CallbackHandle handle_ = 0;
};

}  // namespace cairn::testing

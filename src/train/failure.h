// What user code throws during a run, with the place in the run added: a model's forward() that
// meets a wrong shape says which batch, of which tensors, and not only libtorch's sentence.
//
//  - libtorch's and the standard library's exceptions become a TrainingError; the original, with
//    its backtrace, is nested in it (std::rethrow_if_nested).
//  - cairn's own errors keep their type; those of a batch get the place in front.
//  - Anything else, a class of the user's own, passes as it is: whoever throws it also catches it.
#pragma once

#include <string>
#include <utility>

#include "train/loop_context.h"

namespace cairn {

// Inside a handler.
[[noreturn]] void rethrow_from_batch(const LoopContext& context, const std::string& doing,
                                     bool has_batch);

// Runs `work`; `doing` is for the message: "forward()", "the data loader".
template <class Work>
decltype(auto) in_batch(const LoopContext& context, const char* doing, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_from_batch(context, doing, /*has_batch=*/true);
  }
}

// The same where state.batch is not there yet, or not any more.
template <class Work>
decltype(auto) around_batch(const LoopContext& context, const char* doing, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_from_batch(context, doing, /*has_batch=*/false);
  }
}

}  // namespace cairn

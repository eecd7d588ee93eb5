// SAM: looks for flat minima (arXiv:2010.01412; composer/algorithms/sam).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cairn/algorithms/batch_repeater.h"
#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct SAMOptions {
  double rho = 0.05;          // how far the weights move uphill, as an L2 norm
  double epsilon = 1.0e-12;   // added to the norm of the gradients
  std::int64_t interval = 1;  // every n-th batch; the others train as without SAM
};

// In every `interval`-th batch moves the weights uphill along the gradients by a length of rho,
// computes the gradients there, moves the weights back, and lets the optimizer step with the new
// gradients. Such a batch takes twice the time, and memory for a copy of the weights. The optimizer
// stays what it is, in the run and in checkpoints; Composer wraps it, and cannot resume.
//
// Not with amp_fp16 or an optimizer that needs a closure: fit() throws UnsupportedError. Not for a
// sharded model: the Trainer throws UnsupportedError.
class SAM final : public Algorithm, public BatchRepeater {
 public:
  // Throws UsageError for a rho below 0, or an interval below 1.
  explicit SAM(SAMOptions options = {});
  explicit SAM(EmptyBraces) : SAM(SAMOptions()) {}  // SAM({.rho = 0.05})
  template <detail::NeverMatches T>
  SAM(std::initializer_list<T>) = delete;

  std::string name() const override { return "SAM"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

  bool begin_repeat(State& state) override;
  void end_repeat(State& state) override;

  // {"repr", "global_step"}; Composer has no "global_step", and passes it over.
  Value state_dict() const override;
  // Counts from 0 after a checkpoint of Composer. Throws MismatchError for a malformed state.
  void load_state_dict(const Value& saved, const State& live) override;

 private:
  SAMOptions options_;
  std::int64_t global_step_ = 0;  // batches
  // The steps uphill of the current batch, by parameter.
  std::vector<std::pair<at::Tensor, at::Tensor>> e_w_;
};

}  // namespace cairn

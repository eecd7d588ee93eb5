// SWA: ends training with the mean of the weights of its last part (arXiv:1803.05407;
// composer/algorithms/swa, torch.optim.swa_utils).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

class RunningScheduler;

enum class AnnealStrategy : std::uint8_t { kLinear, kCos };
template <>
struct WordsOf<AnnealStrategy> {
  static constexpr std::array kAll = {"linear", "cos"};
};

struct SWAOptions {
  // When averaging starts, and when the mean replaces the weights. Both in epochs, or both as a
  // fraction of the run. Train for at least an epoch after swa_end: the mean has the buffers of the
  // last weights, and BatchNorm's fit only after some training with the mean.
  Time swa_start = "0.7dur";
  Time swa_end = "0.97dur";
  // Time between two samples of the weights, in epochs or batches. In a run of one epoch it must be
  // in batches.
  Time update_interval = "1ep";
  // Moves the learning rate to swa_lr, by one step at each sample. A scheduler that steps in every
  // batch sets its own rate again after the next batch.
  bool schedule_swa_lr = false;
  Word<AnnealStrategy> anneal_strategy = AnnealStrategy::kLinear;
  std::int64_t anneal_steps = 10;  // samples until the learning rate is swa_lr
  // nullopt: the rate at swa_start. Composer uses that rate in any case.
  std::optional<double> swa_lr = std::nullopt;
};

// Keeps the mean of the samples of all parameters in memory of the host, and in checkpoints: one
// more copy of the model. Buffers are those of the last sample. At swa_end the mean becomes the
// model's weights, and training continues with them. Each sample costs a pass over the weights.
class SWA final : public Algorithm {
 public:
  // Throws UsageError for times in other units, or out of order or range.
  explicit SWA(SWAOptions options = {});
  explicit SWA(EmptyBraces) : SWA(SWAOptions()) {}  // SWA({.swa_start = "6ep", .swa_end = "8ep"})
  template <detail::NeverMatches T>
  SWA(std::initializer_list<T>) = delete;

  std::string name() const override { return "SWA"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

  // {"swa_model": {"n_averaged", "module.NAME"...}, "swa_completed", "swa_started",
  // "swa_scheduler", "step_counter", "repr"}. "swa_scheduler" is the state of PyTorch's SWALR with
  // "swa_lr", or None.
  Value state_dict() const override;
  // Throws MismatchError, and changes nothing, if the state is of another model.
  void load_state_dict(const Value& saved, const State& live) override;

 private:
  void start(const State& state);
  void update(const State& state);
  void replace_weights(const State& state) const;

  SWAOptions options_;
  // The model's state dict, with copies of its tensors; a tensor of two names is one copy.
  std::vector<std::pair<std::string, at::Tensor>> swa_model_;
  // The same copies, each once, in the order of named_parameters() and named_buffers().
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  at::Tensor n_averaged_;                            // int64
  std::shared_ptr<RunningScheduler> swa_scheduler_;  // null: not scheduled
  bool swa_started_ = false;
  bool swa_completed_ = false;
  std::int64_t step_counter_ = 0;
};

}  // namespace cairn

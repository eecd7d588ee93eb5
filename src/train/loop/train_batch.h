// BatchTrainer: one optimizer step on state.batch (Composer's _train_batch).
//
//  1. before_train_batch; gradients are dropped, not zeroed: backward then writes them once.
//  2. The batch is cut into microbatches. Each one's mean loss is weighted with its share of the
//     batch's samples (or tokens), so that the gradient is that of the whole batch.
//  3. For each: before_forward .. after_backward; then the train metrics see it as it was before
//     algorithms changed it.
//  4. Gradients are unscaled (fp16), after_train_batch (where they are clipped), optimizer step.
//
// Of several processes each does so with a batch of its own, which weighs as much as it is of all
// ranks' average; its gradients are averaged by GradientSync (dist/sharding/gradient_sync.h).
// Buffers (BatchNorm's) are rank 0's at the beginning of each batch, as with PyTorch's DDP.
//
// A sharded model (State::sharding) averages its gradients itself, in every microbatch, whatever
// the strategy is; all ranks have as many passes as the one with the most microbatches.
//
// An optimizer that needs a closure (LBFGS) is given 1 to 4 up to its step as one, and runs it as
// often as it likes, as in Composer; losses and metrics are those of the last time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/loop/loop_context.h"

namespace cairn::dist {
class GradientSync;
}

namespace cairn {

class BatchTrainer {
 public:
  explicit BatchTrainer(LoopContext& context);
  ~BatchTrainer();

  void train();

  // Fills state.total_loss_dict from the last batch, of all ranks. Waits for the device.
  void publish_losses();

 private:
  void evaluate();  // all but the optimizer step
  void run_microbatches();
  void run_microbatch(double weight);
  Losses forward();
  void backward(double weight);
  void accumulate(const Losses& losses, double weight);
  void add_loss(const std::string& name, const at::Tensor& loss, double weight);
  void update_metrics(const Batch& batch);
  void step();
  void join_ranks();
  void sync_gradients(bool is_before_backward);
  double weight_of(const Batch& part) const;
  std::size_t syncs_beyond_own(std::optional<std::int64_t> size) const;
  double average_over_ranks(double value) const;
  using NamedLosses = std::vector<std::pair<std::string, double>>;
  NamedLosses average_over_ranks(const NamedLosses& own) const;

  LoopContext& context_;
  bool is_of_several() const { return context_.group != nullptr; }

  std::unique_ptr<dist::GradientSync> sync_;  // null in one process, and of a sharded model
  double rank_share_ = 1.0;                   // of this rank's batch in the average one
  std::vector<std::pair<std::string, at::Tensor>> totals_;  // of the batch, on the device
};

// Drops the gradients of every parameter.
void drop_gradients(torch::optim::Optimizer& optimizer);

}  // namespace cairn

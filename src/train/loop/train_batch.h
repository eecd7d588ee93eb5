// BatchTrainer: one optimizer step on state.batch (Composer's _train_batch).
//
//  1. before_train_batch. Gradients are dropped, not zeroed, so that backward writes them once.
//  2. The batch is cut into microbatches. Each mean loss is weighted with the microbatch's share of
//     the batch's samples (or tokens), so that the gradient is that of the whole batch.
//  3. For each microbatch: before_forward .. after_backward. Then the train metrics see the
//     microbatch as it was before algorithms changed it.
//  4. Gradients are unscaled (fp16), after_train_batch (where they are clipped), optimizer step.
//
// In a job of several processes each rank does these steps with its own batch. The batch is
// weighted by its size relative to the ranks' average. GradientSync averages the gradients
// (dist/sharding/gradient_sync.h). As in PyTorch's DDP, rank 0 sends its buffers (BatchNorm's) to
// all at the beginning of each batch, if a rank's buffers have changed. rank_batch.h has the order
// of the messages.
//
// A sharded model (State::sharding) averages its gradients itself, in every microbatch, whatever
// the strategy is. All ranks do as many passes as the rank with the most microbatches.
//
// With State::auto_microbatching the ranks average after the last backward(), whatever the strategy
// is, and steps 1 to 3 are repeated if a device's memory ran out (microbatches.h).
//
// An optimizer that needs a closure (LBFGS) receives steps 1 to 4, without its own step, as a
// closure. As in Composer, the optimizer runs the closure as often as it needs; losses and metrics
// are those of the last run.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"

#include "train/loop/loop_context.h"
#include "train/loop/rank_batch.h"
#include "train/loop/report/pending_losses.h"

namespace cairn::dist {
class GradientSync;
}

namespace CAIRN_PUBLIC cairn {
class BatchRepeater;
}  // namespace cairn

namespace cairn {

class BatchTrainer {
 public:
  // `rank_batch` must outlive this object.
  BatchTrainer(LoopContext& context, RankBatch& rank_batch);
  ~BatchTrainer();

  // This rank's part of RankBatch::begin() for a batch. Call it before train(), in a job of
  // several processes.
  RankBatch::Join own_join(const Batch& batch);
  void train();

  // The losses of the last batch, on the device.
  const NamedValues& losses() const { return totals_; }

 private:
  void evaluate();  // Everything except the optimizer step.
  void evaluate_and_repeat(BatchRepeater& repeater);
  void begin();  // Up to the first microbatch.
  void run_microbatches();
  void run_microbatch(double weight);
  Losses forward();
  void backward(double weight);
  void accumulate(const Losses& losses, double weight);
  void add_loss(const std::string& name, const at::Tensor& loss, double weight);
  void update_metrics(const Batch& batch);
  void step();
  std::vector<at::Tensor> trained_parameters() const;
  void join_ranks();
  void send_buffers();
  bool has_other_buffers();
  void sync_gradients(bool is_before_backward);
  double weight_of(const Batch& part) const;
  std::size_t syncs_beyond_own(std::optional<std::int64_t> size) const;
  double average_over_ranks(double value) const;

  LoopContext& context_;
  RankBatch& rank_batch_;
  bool is_of_several() const { return context_.group != nullptr; }

  std::unique_ptr<dist::GradientSync> sync_;  // Null in one process, and for a sharded model.
  double rank_share_ = 1.0;  // Weight of this rank's batch relative to the average.
  struct SentBuffer {
    at::Tensor tensor;
    std::int64_t version;
  };
  // The buffers as rank 0 last sent them; nullopt before the first batch.
  std::optional<std::vector<SentBuffer>> sent_buffers_;
  // Some operations write to buffers without counting a version: torch::batch_norm() to running
  // statistics. Whether this model has such buffers is found out in the second batch, by copies
  // from the first one.
  std::vector<at::Tensor> first_buffers_;
  bool has_silent_changes_ = false;
  NamedValues totals_;  // Losses of the batch, on the device.
};

// Drops the gradients of every parameter.
void drop_gradients(torch::optim::Optimizer& optimizer);

}  // namespace cairn

// BatchTrainer: one optimizer step on state.batch (Composer's _train_batch).
//
//  1. before_train_batch; gradients are dropped, not zeroed: backward then writes them once.
//  2. The batch is cut into microbatches. Each one's mean loss is weighted with its share of the
//     batch's samples (or tokens), so that the gradient is that of the whole batch.
//  3. For each: before_forward .. after_backward; then the train metrics see it as it was before
//     algorithms changed it.
//  4. Gradients are unscaled (fp16), after_train_batch (where they are clipped), optimizer step.
//
// An optimizer that needs a closure (LBFGS) is given 1 to 4 up to its step as one, and runs it as
// often as it likes, as in Composer; losses and metrics are those of the last time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/loop/loop_context.h"

namespace cairn {

class BatchTrainer {
 public:
  explicit BatchTrainer(LoopContext& context) : context_(context) {}

  void train();

  // Fills state.total_loss_dict from the last batch. Waits for the device.
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

  LoopContext& context_;
  std::vector<std::pair<std::string, at::Tensor>> totals_;  // of the batch, on the device
};

// Drops the gradients of every parameter.
void drop_gradients(torch::optim::Optimizer& optimizer);

}  // namespace cairn

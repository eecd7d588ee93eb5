#include "train/loop/predict_loop.h"

#include <torch/torch.h>

#include "cairn/error.h"

#include "dist/group.h"
#include "train/data/data_spec.h"
#include "train/loop/failure.h"
#include "train/loop/sharded_pass.h"

namespace cairn {
namespace {

Outputs predict_batch(LoopContext& context) {
  State& state = context.state;
  state.outputs = Outputs();  // Drop the outputs of the last batch.
  transform_batch(context, *state.dataloader);
  place_microbatch(context);
  context.engine.run_event(Event::kPredictBatchStart);
  context.engine.run_event(Event::kPredictBeforeForward);
  {
    ShardedPass pass(state);
    const AutocastGuard autocast(context.precision, context.device);
    state.outputs = in_model(context, "eval_forward()",  //
                             [&] { return state.model->eval_forward(state.batch, nullptr); });
    pass.end();
  }
  context.engine.run_event(Event::kPredictAfterForward);
  Outputs outputs = state.outputs.map([](const at::Tensor& tensor) { return tensor.cpu(); });
  context.engine.run_event(Event::kPredictBatchEnd);
  return outputs;
}

// Whether any rank still has a batch. In a sharded run this rank must then join that rank's pass.
bool has_any_rank(const State& state, bool batch) {
  if (state.sharding == nullptr) return batch;
  return dist::sum({batch ? 1.0 : 0.0}, "fetching a batch to predict")[0] > 0;
}

}  // namespace

std::vector<Outputs> run_predict(LoopContext& context, DataSpec& dataloader,
                                 std::int64_t subset_num_batches) {
  State& state = context.state;
  if (!dataloader) throw UsageError("predict() needs a dataloader");
  const DataloaderGuard guard(state);
  const torch::NoGradGuard no_grad;
  const EvalMode eval_mode(state.model->module());
  const PredictBatch guard_of_number(context);
  state.dataloader = &dataloader;
  state.dataloader_label = "predict";
  state.dataloader_len = epoch_length(dataloader, subset_num_batches);
  if (!state.dataloader_len) {
    throw UsageError("predict(): the loader has no known length; give subset_num_batches");
  }
  context.engine.run_event(Event::kPredictStart);
  std::vector<Outputs> all;
  start_pass(context, *dataloader.dataloader, 0);
  for (std::int64_t i = 0;; ++i) {
    context.predict_batch = i;
    std::optional<Batch> batch;
    if (i < *state.dataloader_len) {
      batch =
          around_batch(context, "the data loader", [&] { return dataloader.dataloader->next(); });
    }
    if (!has_any_rank(state, batch.has_value())) break;
    if (!batch) {
      repeat_passes(state, 1, /*with_backward=*/false);
      continue;
    }
    state.batch = std::move(*batch);
    all.push_back(predict_batch(context));
  }
  context.engine.run_event(Event::kPredictEnd);
  return all;
}

}  // namespace cairn

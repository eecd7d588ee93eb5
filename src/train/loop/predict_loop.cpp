#include "train/loop/predict_loop.h"

#include <torch/torch.h>

#include <chrono>

#include "cairn/error.h"

#include "dist/group.h"
#include "train/data/data_spec.h"
#include "train/loop/failure.h"
#include "train/loop/sharded_pass.h"

namespace cairn {
namespace {

// Returns the outputs, on the host, or none if `return_outputs` is false.
Outputs predict_batch(LoopContext& context, bool return_outputs) {
  State& state = context.state;
  const auto begin = std::chrono::steady_clock::now();
  state.outputs = Outputs();  // Drop the outputs of the last batch.
  transform_batch(context, *state.dataloader);
  const std::int64_t samples = num_samples_in_batch(*state.dataloader, state.batch);
  const std::int64_t tokens = num_tokens_in_batch(*state.dataloader, state.batch);
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
  Outputs outputs;
  if (return_outputs)
    outputs = state.outputs.map([](const at::Tensor& tensor) { return tensor.cpu(); });
  const auto duration = std::chrono::steady_clock::now() - begin;
  state.predict_timestamp = state.predict_timestamp.to_next_batch(
      samples, tokens,
      TimeDelta::of(std::chrono::duration_cast<std::chrono::microseconds>(duration)));
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
                                 std::int64_t subset_num_batches, bool return_outputs) {
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
  state.predict_timestamp = Timestamp();
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
    Outputs outputs = predict_batch(context, return_outputs);
    if (return_outputs) all.push_back(std::move(outputs));
  }
  context.engine.run_event(Event::kPredictEnd);
  return all;
}

}  // namespace cairn

#include "train/loop/predict_loop.h"

#include <torch/torch.h>

#include "cairn/error.h"

#include "train/data/data_spec.h"
#include "train/loop/failure.h"
#include "train/state/base_seed.h"

namespace cairn {
namespace {

Outputs predict_batch(LoopContext& context) {
  State& state = context.state;
  state.outputs = Outputs();  // those of the last batch
  transform_batch(context, *state.dataloader);
  place_microbatch(context);
  context.engine.run_event(Event::kPredictBatchStart);
  context.engine.run_event(Event::kPredictBeforeForward);
  {
    const AutocastGuard autocast(context.precision);
    state.outputs = in_model(context, "eval_forward()",  //
                             [&] { return state.model->eval_forward(state.batch, nullptr); });
  }
  context.engine.run_event(Event::kPredictAfterForward);
  Outputs outputs = state.outputs.map([](const at::Tensor& tensor) { return tensor.cpu(); });
  context.engine.run_event(Event::kPredictBatchEnd);
  return outputs;
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
  draw_base_seed();
  dataloader.dataloader->start_epoch(0, 0);
  for (std::int64_t i = 0; i < *state.dataloader_len; ++i) {
    context.predict_batch = i;
    std::optional<Batch> batch =
        around_batch(context, "the data loader", [&] { return dataloader.dataloader->next(); });
    if (!batch) break;
    state.batch = std::move(*batch);
    all.push_back(predict_batch(context));
  }
  context.engine.run_event(Event::kPredictEnd);
  return all;
}

}  // namespace cairn

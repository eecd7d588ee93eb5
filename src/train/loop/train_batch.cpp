#include "train/loop/train_batch.h"

#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/scaler.h"

#include "train/data/data_spec.h"
#include "train/loop/failure.h"
#include "train/loop/microbatches.h"

namespace cairn {
namespace {

at::Tensor mean_of(const at::Tensor& loss) { return loss.dim() == 0 ? loss : loss.mean(); }

// The scalar to train: the named total, or the sum of the means.
at::Tensor scalar_of(const Losses& losses) {
  if (losses.empty()) throw UsageError("Model::loss() gave no tensor");
  if (losses.is_named()) {
    if (const at::Tensor* total = losses.find("total")) return mean_of(*total);
  }
  at::Tensor sum = mean_of(losses[0]);
  for (std::size_t i = 1; i < losses.size(); ++i)
    sum = sum + mean_of(losses[i]);
  return sum;
}

}  // namespace

void drop_gradients(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params())
      parameter.mutable_grad().reset();
  }
}

void BatchTrainer::train() {
  State& state = context_.state;
  if (!needs_closure(*state.optimizer)) {
    evaluate();
    return step();
  }
  const Batch whole = state.batch;
  state.optimizer->step([&] {
    const torch::AutoGradMode with_gradients(true);
    state.batch = whole;  // as it was before the last evaluation's transforms
    evaluate();
    return totals_.back().second;
  });
}

void BatchTrainer::evaluate() {
  State& state = context_.state;
  for (const auto& [name, metric] : state.train_metrics)
    metric->reset();
  totals_.clear();
  context_.engine.run_event(Event::kBeforeTrainBatch);
  drop_gradients(*state.optimizer);
  run_microbatches();
  if (context_.precision == Precision::kAmpFp16) state.scaler->unscale_(*state.optimizer);
  context_.engine.run_event(Event::kAfterTrainBatch);
}

void BatchTrainer::step() {
  State& state = context_.state;
  in_batch(context_, "the optimizer's step()", [&] {
    if (context_.precision == Precision::kAmpFp16) {
      state.scaler->step(*state.optimizer);
      state.scaler->update();
    } else {
      state.optimizer->step();
    }
  });
}

void BatchTrainer::run_microbatches() {
  State& state = context_.state;
  const DataSpec& spec = *state.dataloader;
  const auto weight = [&](const Batch& part) {
    return static_cast<double>(context_.accumulate_on_tokens ? num_tokens_in_batch(spec, part)
                                                             : num_samples_in_batch(spec, part));
  };
  for_each_microbatch(context_, state.device_train_microbatch_size,
                      {.use = [&](double share) { run_microbatch(share); }, .weight = weight});
}

void BatchTrainer::run_microbatch(double weight) {
  State& state = context_.state;
  Batch for_metrics;
  if (!state.train_metrics.empty()) for_metrics = state.batch;
  accumulate(forward(), weight);
  backward(weight);
  if (!state.train_metrics.empty()) update_metrics(for_metrics);
}

// Up to before_backward, so that what is counted is what algorithms made of the loss.
Losses BatchTrainer::forward() {
  State& state = context_.state;
  Engine& engine = context_.engine;
  engine.run_event(Event::kBeforeForward);
  {
    const AutocastGuard autocast(context_.precision);
    state.outputs =
        in_model(context_, "forward()", [&] { return state.model->forward(state.batch); });
  }
  engine.run_event(Event::kAfterForward);
  engine.run_event(Event::kBeforeLoss);
  Losses losses;
  {
    const AutocastGuard autocast(context_.precision);
    in_batch(context_, "loss()", [&] {
      losses = state.model->loss(state.outputs, state.batch);
      state.loss = scalar_of(losses);
    });
  }
  engine.run_event(Event::kAfterLoss);
  engine.run_event(Event::kBeforeBackward);
  return losses;
}

void BatchTrainer::backward(double weight) {
  State& state = context_.state;
  at::Tensor loss = state.loss;
  if (context_.precision == Precision::kAmpFp16) loss = state.scaler->scale(loss);
  if (weight != 1.0) loss = loss * weight;
  in_batch(context_, "backward()", [&] { loss.backward(); });
  context_.engine.run_event(Event::kAfterBackward);
}

void BatchTrainer::accumulate(const Losses& losses, double weight) {
  const torch::NoGradGuard no_grad;
  if (losses.is_named() || losses.size() > 1) {
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const std::string name = losses.is_named() ? losses.names()[i] : "loss" + std::to_string(i);
      if (name != "total") add_loss(name, mean_of(losses[i]), weight);
    }
  }
  add_loss("total", context_.state.loss, weight);
}

void BatchTrainer::add_loss(const std::string& name, const at::Tensor& loss, double weight) {
  at::Tensor share = loss.detach();
  if (weight != 1.0) share = share * weight;
  for (auto& [known, total] : totals_) {
    if (known == name) {
      total = total + share;
      return;
    }
  }
  totals_.emplace_back(name, std::move(share));
}

void BatchTrainer::publish_losses() {
  for (const auto& [name, total] : totals_) {
    context_.state.total_loss_dict.set("loss/train/" + name, total.item<double>());
  }
}

void BatchTrainer::update_metrics(const Batch& batch) {
  State& state = context_.state;
  const torch::NoGradGuard no_grad;
  const EvalMode eval_mode(state.model->module());
  const AutocastGuard autocast(context_.precision);
  const Outputs outputs = in_batch(context_, "eval_forward()", [&] {  //
    return state.model->eval_forward(batch, &state.outputs);
  });
  update_all_metrics(context_, state.train_metrics, batch, outputs);
}

}  // namespace cairn

#include "train/loop/train_batch.h"

#include <torch/torch.h>

#include <algorithm>

#include "cairn/algorithms/batch_repeater.h"
#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/scaler.h"

#include "dist/sharding/gradient_sync.h"
#include "train/data/data_spec.h"
#include "train/loop/failure.h"
#include "train/loop/microbatches.h"
#include "train/loop/sharded_pass.h"

namespace cairn {
namespace {

at::Tensor mean_of(const at::Tensor& loss) { return loss.dim() == 0 ? loss : loss.mean(); }

// The scalar to train: the loss named "total", or the sum of the means.
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

// Counts the operations that have changed the tensor. A tensor of inference mode counts none.
std::int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
}

BatchRepeater* repeater_among(const std::vector<std::shared_ptr<Algorithm>>& algorithms) {
  BatchRepeater* found = nullptr;
  for (const auto& algorithm : algorithms) {
    auto* const repeater = dynamic_cast<BatchRepeater*>(algorithm.get());
    if (repeater == nullptr) continue;
    if (found != nullptr) {
      throw UsageError("two algorithms, of which one is " + algorithm->name() +
                       ", compute the gradients of a batch again: use one of them");
    }
    found = repeater;
  }
  return found;
}

}  // namespace

void drop_gradients(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params())
      parameter.mutable_grad().reset();
  }
}

BatchTrainer::BatchTrainer(LoopContext& context, RankBatch& rank_batch)
    : context_(context), rank_batch_(rank_batch) {}
BatchTrainer::~BatchTrainer() = default;

void BatchTrainer::train() {
  State& state = context_.state;
  if (!needs_closure(*state.optimizer)) {
    BatchRepeater* const repeater = repeater_among(state.algorithms);
    if (repeater == nullptr) {
      evaluate();
    } else {
      evaluate_and_repeat(*repeater);
    }
    return step();
  }
  const Batch whole = state.batch;
  state.optimizer->step([&] {
    const torch::AutoGradMode with_gradients(true);
    state.batch = whole;  // Undo the transforms of the last evaluate().
    evaluate();
    if (!is_of_several()) return totals_.back().second;
    return at::scalar_tensor(average_over_ranks(totals_.back().second.item<double>()), at::kDouble);
  });
}

void BatchTrainer::evaluate_and_repeat(BatchRepeater& repeater) {
  State& state = context_.state;
  const Batch whole = state.batch;
  evaluate();
  if (!repeater.begin_repeat(state)) return;
  NamedValues first = totals_;
  state.batch = whole;  // Undo the transforms of the first evaluate().
  try {
    evaluate();
  } catch (...) {
    repeater.end_repeat(state);
    throw;
  }
  repeater.end_repeat(state);
  totals_ = std::move(first);
}

std::vector<at::Tensor> BatchTrainer::trained_parameters() const {
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter :
       unique_tensors(cairn::parameters(context_.state.model->module()))) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

RankBatch::Join BatchTrainer::own_join(const Batch& batch) {
  const bool is_sharded = context_.state.sharding != nullptr;
  return {.weight = weight_of(batch),
          .has_other_parameters =
              !is_sharded && (!sync_ || !sync_->has_parameters(trained_parameters())),
          .has_other_buffers = has_other_buffers()};
}

// Before each batch, makes the ranks agree on parameters, weight and buffers. Call it after
// everything that may freeze a layer for this batch.
void BatchTrainer::join_ranks() {
  const RankBatch::Join all = rank_batch_.join([this] { return own_join(context_.state.batch); });
  // The parameters were frozen, unfrozen or replaced, perhaps on one rank only. If the ranks differ
  // then, the constructor throws on all ranks.
  if (all.has_other_parameters) {
    sync_.reset();  // First, since the hooks of the old object are on the same parameters.
    sync_ = std::make_unique<dist::GradientSync>(*context_.group, trained_parameters());
  }
  if (all.has_other_buffers) send_buffers();
  // If the batches of all ranks weigh nothing, each batch counts as in a job of one process.
  rank_share_ = all.weight == 0 ? 1.0
                                : weight_of(context_.state.batch) *
                                      static_cast<double>(dist::world_size()) / all.weight;
}

void BatchTrainer::send_buffers() {
  const std::vector<at::Tensor> buffers = context_.state.model->module().buffers();
  dist::broadcast_tensors(buffers, "sending the model's buffers");
  if (!sent_buffers_) {
    for (const at::Tensor& buffer : buffers)
      first_buffers_.push_back(buffer.clone());
  }
  sent_buffers_.emplace();
  for (const at::Tensor& buffer : buffers)
    sent_buffers_->push_back({buffer, version_of(buffer)});
}

// Whether this rank's buffers may be others than those that rank 0 last sent.
bool BatchTrainer::has_other_buffers() {
  if (!sent_buffers_) return true;
  for (std::size_t i = 0; i < first_buffers_.size(); ++i) {
    const SentBuffer& sent = (*sent_buffers_)[i];
    const bool has_version = version_of(sent.tensor) != sent.version;
    has_silent_changes_ |= !has_version && !sent.tensor.equal(first_buffers_[i]);
  }
  first_buffers_.clear();
  if (has_silent_changes_) return true;
  const auto is_as_sent = [](const at::Tensor& buffer, const SentBuffer& sent) {
    return buffer.is_same(sent.tensor) && !buffer.is_inference() &&
           version_of(buffer) == sent.version;
  };
  return !std::ranges::equal(context_.state.model->module().buffers(), *sent_buffers_, is_as_sent);
}

void BatchTrainer::sync_gradients(bool is_before_backward) {
  if (!sync_ || context_.state.auto_microbatching) return;
  const bool is_last = context_.microbatch + 1 == context_.microbatches;
  const bool is_each = context_.sync_strategy == DdpSyncStrategy::kMultiAutoSync;
  if (!is_last && !is_each) return;
  if (!is_before_backward) {
    sync_->finish("averaging the gradients of batch " +
                  std::to_string(context_.state.timestamp.batch));
  } else if (context_.sync_strategy != DdpSyncStrategy::kForcedSync) {
    sync_->expect();
  }
}

double BatchTrainer::average_over_ranks(double value) const {
  return dist::sum({value}, "averaging a loss")[0] / static_cast<double>(dist::world_size());
}

double BatchTrainer::weight_of(const Batch& part) const {
  const DataSpec& spec = *context_.state.dataloader;
  if (!context_.accumulate_on_tokens) {
    return static_cast<double>(num_samples_in_batch(spec, part));
  }
  const std::int64_t tokens = num_tokens_in_batch(spec, part);
  if (tokens == 0 && !spec.get_num_tokens_in_batch) {
    throw UsageError(
        "accumulate_train_batch_on_tokens weighs by tokens, and the train data loader's batches "
        "have no tensor named input_ids to count them by: set DataSpec::get_num_tokens_in_batch, "
        "or leave the option out");
  }
  return static_cast<double>(tokens);
}

void BatchTrainer::begin() {
  State& state = context_.state;
  for (const auto& [name, metric] : state.train_metrics)
    metric->reset();
  totals_.clear();
  context_.engine.run_event(Event::kBeforeTrainBatch);
  drop_gradients(*state.optimizer);
  if (context_.group != nullptr) join_ranks();
}

void BatchTrainer::evaluate() {
  State& state = context_.state;
  if (state.auto_microbatching) {
    compute_in_parts_that_fit(
        context_, {.begin = [this] { begin(); }, .compute = [this] { run_microbatches(); }});
    if (sync_)
      sync_->finish("averaging the gradients of batch " + std::to_string(state.timestamp.batch));
  } else {
    begin();
    run_microbatches();
  }
  if (context_.precision == Precision::kAmpFp16) {
    state.scaler->unscale_(*state.optimizer);
    if (state.sharding) state.scaler->agree_over_ranks();
  }
  context_.engine.run_event(Event::kAfterTrainBatch);
}

void BatchTrainer::step() {
  State& state = context_.state;
  const PhaseTimer timer(context_.times, Phase::kStep);
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
  const auto size = context_.state.device_train_microbatch_size;
  const std::size_t syncs = syncs_beyond_own(size);
  const State& state = context_.state;
  const auto own = state.sharding ? count_microbatches(context_, size) : 0;
  const std::int64_t passes = passes_of_others(state, static_cast<std::int64_t>(own));
  if (state.sharding) state.sharding->record_forward_order();
  for_each_microbatch(context_, size,
                      {.use =
                           [&](double share) {
                             // If the batch weighs nothing, the shares of its parts mean nothing.
                             run_microbatch(rank_share_ == 0 ? 0 : share * rank_share_);
                           },
                       .weight = [&](const Batch& part) { return weight_of(part); }});
  repeat_passes(state, passes, /*with_backward=*/true);
  for (std::size_t i = 0; i < syncs; ++i)
    sync_->finish("averaging the gradients of another rank's microbatch");
}

// With multi_auto_sync, a rank with fewer microbatches still averages with the other ranks.
std::size_t BatchTrainer::syncs_beyond_own(std::optional<std::int64_t> size) const {
  if (!sync_ || context_.state.auto_microbatching) return 0;
  if (context_.sync_strategy != DdpSyncStrategy::kMultiAutoSync) return 0;
  const auto own = static_cast<std::int64_t>(count_microbatches(context_, size));
  at::Tensor most = at::full({1}, own, at::kLong);
  dist::all_reduce(most, dist::ReduceOp::kMax);
  return static_cast<std::size_t>(most.item<std::int64_t>() - own);
}

void BatchTrainer::run_microbatch(double weight) {
  State& state = context_.state;
  Batch for_metrics;
  if (!state.train_metrics.empty()) for_metrics = state.batch;
  ShardedPass pass(state);
  accumulate(forward(), weight);
  backward(weight);
  if (!state.train_metrics.empty()) update_metrics(for_metrics);
  pass.end();
}

// Ends after before_backward, so that losses are counted after algorithms changed them.
Losses BatchTrainer::forward() {
  State& state = context_.state;
  Engine& engine = context_.engine;
  const PhaseTimer timer(context_.times, Phase::kForward);
  engine.run_event(Event::kBeforeForward);
  {
    const AutocastGuard autocast(context_.precision, context_.device);
    state.outputs =
        in_model(context_, "forward()", [&] { return state.model->forward(state.batch); });
  }
  engine.run_event(Event::kAfterForward);
  engine.run_event(Event::kBeforeLoss);
  Losses losses;
  {
    const AutocastGuard autocast(context_.precision, context_.device);
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
  const PhaseTimer timer(context_.times, Phase::kBackward);
  at::Tensor loss = state.loss;
  if (context_.precision == Precision::kAmpFp16) loss = state.scaler->scale(loss);
  if (weight != 1.0) loss = loss * weight;
  sync_gradients(/*is_before_backward=*/true);
  // The mean over no elements is NaN, and NaN times 0 is NaN.
  const bool weighs_nothing = weight == 0;
  if (state.sharding) {  // Needed even without weight: the other ranks wait for this pass.
    in_batch(context_, "backward()", [&] { state.sharding->backward(loss, !weighs_nothing); });
  } else if (!weighs_nothing) {
    in_batch(context_, "backward()", [&] { loss.backward(); });
  }
  sync_gradients(/*is_before_backward=*/false);
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
  if (weight == 0) share = at::zeros_like(share);  // The loss may be NaN.
  if (weight != 0 && weight != 1.0) share = share * weight;
  for (auto& [known, total] : totals_) {
    if (known == name) {
      total = total + share;
      return;
    }
  }
  totals_.emplace_back(name, std::move(share));
}

void BatchTrainer::update_metrics(const Batch& batch) {
  State& state = context_.state;
  const torch::NoGradGuard no_grad;
  const EvalMode eval_mode(state.model->module());
  const AutocastGuard autocast(context_.precision, context_.device);
  const Outputs outputs = in_batch(context_, "eval_forward()", [&] {  //
    return state.model->eval_forward(batch, &state.outputs);
  });
  update_all_metrics(context_, state.train_metrics, batch, outputs);
}

}  // namespace cairn

#include "train/loop/eval_loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <chrono>
#include <regex>

#include "cairn/error.h"

#include "dist/group.h"
#include "train/data/data_spec.h"
#include "train/loop/failure.h"
#include "train/loop/microbatches.h"
#include "train/loop/sharded_pass.h"

namespace cairn {
namespace {

[[noreturn]] void refuse_fragment(const std::string& label, const std::string& fragment,
                                  const Metrics& metrics) {
  std::vector<std::string_view> names;
  for (const auto& [name, metric] : metrics)
    names.push_back(name);
  throw UsageError(fmt::format(
      "eval_dataloader '{}': metric_names: '{}' is part of no metric's name; the model has {}",
      label, fragment, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

// Throws UsageError if a fragment is part of no metric's name: a misspelt fragment would evaluate
// nothing.
Metrics wanted_metrics(Model& model, const Evaluator& evaluator) {
  const Metrics all = model.get_metrics(/*is_train=*/false);
  if (!evaluator.metric_names) return all;
  std::vector<bool> is_wanted(all.size());
  for (const std::string& fragment : *evaluator.metric_names) {
    const std::regex pattern(fragment, std::regex::icase);
    bool has_any = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!std::regex_search(all[i].first, pattern)) continue;
      is_wanted[i] = true;
      has_any = true;
    }
    if (!has_any) refuse_fragment(evaluator.label, fragment, all);
  }
  Metrics wanted;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_wanted[i]) wanted.push_back(all[i]);
  }
  return wanted;
}

// For logs, as in Composer: the loader's batch size if batches are not cut.
std::optional<std::int64_t> microbatch_size(const Evaluator& evaluator) {
  if (evaluator.device_eval_microbatch_size) return evaluator.device_eval_microbatch_size;
  return evaluator.dataloader.dataloader->batch_size();
}

void raise(const std::vector<std::string>& conflicts) {
  if (conflicts.empty()) return;
  std::string text = "eval_dataloader:";
  for (const std::string& conflict : conflicts)
    text += "\n  " + conflict;
  throw UsageError(text);
}

void describe_conflicts(const Evaluator& evaluator, std::int64_t default_subset,
                        std::vector<std::string>& found) {
  const std::string who = "eval_dataloader '" + evaluator.label + "': ";
  if (!evaluator.dataloader) {
    found.push_back(who + "Evaluator::dataloader is not set");
    return;
  }
  const std::int64_t subset = evaluator.subset_num_batches.value_or(default_subset);
  if (subset < 1 && subset != -1) {
    found.push_back(who + "subset_num_batches is " + std::to_string(subset) +
                    "; give a positive number, or -1 for all");
  } else if (subset == -1 && !evaluator.dataloader.dataloader->num_batches()) {
    found.push_back(who + "its loader has no known length; set subset_num_batches");
  }
  if (evaluator.device_eval_microbatch_size.value_or(1) < 1) {
    found.push_back(who + "device_eval_microbatch_size is less than 1");
  }
  for (const std::string& fragment : evaluator.metric_names.value_or(std::vector<std::string>())) {
    try {
      const std::regex compiles(fragment);
    } catch (const std::regex_error&) {
      found.push_back(
          fmt::format("{}metric_names: '{}' is not a regular expression", who, fragment));
    }
  }
}

}  // namespace

std::vector<std::string> evaluator_conflicts(const EvaluatorList& evaluators,
                                             std::int64_t default_subset) {
  std::vector<std::string> found;
  std::vector<std::string> labels;
  for (const Evaluator& evaluator : evaluators.items()) {
    if (std::ranges::find(labels, evaluator.label) != labels.end()) {
      found.push_back("eval_dataloader '" + evaluator.label +
                      "': two evaluators have this label; labels must differ");
    }
    labels.push_back(evaluator.label);
    describe_conflicts(evaluator, default_subset, found);
  }
  return found;
}

void EvalLoop::set_evaluators(const EvaluatorList& evaluators, const EvalDefaults& defaults) {
  raise(evaluator_conflicts(evaluators, defaults.subset_num_batches));
  State& state = context_.state;
  std::vector<std::pair<std::string, Metrics>> metrics;
  for (const Evaluator& evaluator : evaluators.items()) {
    metrics.emplace_back(evaluator.label, wanted_metrics(*state.model, evaluator));
  }
  state.evaluators = evaluators.items();
  state.eval_metrics = std::move(metrics);
  is_due_.clear();
  for (Evaluator& evaluator : state.evaluators) {
    if (!evaluator.subset_num_batches) evaluator.subset_num_batches = defaults.subset_num_batches;
    if (!evaluator.eval_interval) evaluator.eval_interval = defaults.interval;
    is_due_.push_back(create_interval_scheduler(
        *evaluator.eval_interval, {.include_end_of_training = true, .checkpoint_events = false}));
  }
}

std::vector<std::size_t> EvalLoop::find_due(Event event) {
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < is_due_.size(); ++i) {
    if (is_due_[i](context_.state, event)) due.push_back(i);
  }
  return due;
}

void EvalLoop::run(const std::vector<std::size_t>& due) {
  if (due.empty()) return;
  State& state = context_.state;
  context_.engine.run_event(Event::kEvalBeforeAll);
  for (const std::size_t i : due)
    run(state.evaluators[i], state.eval_metrics[i].second);
  context_.engine.run_event(Event::kEvalAfterAll);
}

void EvalLoop::run_standalone(const std::optional<EvaluatorList>& others,
                              std::int64_t subset_num_batches) {
  State& state = context_.state;
  if (others) raise(evaluator_conflicts(*others, subset_num_batches));
  if (!others && state.evaluators.empty()) {
    throw UsageError(
        "eval() has nothing to evaluate: give it evaluators, or the Trainer an eval_dataloader");
  }
  std::vector<Evaluator> evaluators = others ? others->items() : state.evaluators;
  std::vector<Metrics> metrics;
  for (std::size_t i = 0; i < evaluators.size(); ++i) {
    metrics.push_back(others ? wanted_metrics(*state.model, evaluators[i])
                             : state.eval_metrics[i].second);
  }
  context_.engine.run_event(Event::kEvalStandaloneStart);
  for (std::size_t i = 0; i < evaluators.size(); ++i) {
    if (others) {
      evaluators[i].subset_num_batches =
          evaluators[i].subset_num_batches.value_or(subset_num_batches);
    } else if (subset_num_batches != -1) {
      evaluators[i].subset_num_batches = subset_num_batches;
    }
    run(evaluators[i], metrics[i]);
  }
  context_.engine.run_event(Event::kEvalStandaloneEnd);
}

void EvalLoop::run(Evaluator& evaluator, const Metrics& metrics) {
  State& state = context_.state;
  const DataloaderGuard guard(state);
  const torch::NoGradGuard no_grad;
  const EvalMode eval_mode(state.model->module());
  state.eval_timestamp = Timestamp();
  state.dataloader = &evaluator.dataloader;
  state.dataloader_label = evaluator.label;
  state.dataloader_len = epoch_length(evaluator.dataloader, evaluator.subset_num_batches.value());

  context_.engine.run_event(Event::kEvalStart);
  for (const auto& [name, metric] : metrics)
    metric->reset();
  DataLoaderBase& loader = *evaluator.dataloader.dataloader;
  // As in Composer, the number of train batches serves as the epoch of a shuffled loader.
  start_pass(context_, loader, state.timestamp.batch);
  if (context_.group != nullptr) {
    dist::broadcast_tensors(state.model->module().buffers(), "sending the model's buffers");
  }
  for (;;) {
    std::optional<Batch> batch;
    if (!state.dataloader_len || state.eval_timestamp.batch < *state.dataloader_len) {
      batch = around_batch(context_, "the data loader", [&] { return loader.next(); });
    }
    if (!has_any_rank(batch.has_value())) break;
    if (!batch) {
      repeat_passes(state, passes_of_others(state, 0), /*with_backward=*/false);
      advance({});
      continue;
    }
    state.batch = std::move(*batch);
    advance(run_batch(evaluator, metrics));
    // A batch that only other ranks evaluate had no start event here, so it has no end event
    // either.
    if (!state.batch.empty()) context_.engine.run_event(Event::kEvalBatchEnd);
  }
  if (context_.logging()) {
    if (const auto size = microbatch_size(evaluator)) {
      context_.logger.log_metrics(
          Dict{{"trainer/" + evaluator.label + "/device_eval_microbatch_size", *size}});
    }
  }
  compute_metrics(context_, evaluator.label, metrics);
  context_.engine.run_event(Event::kEvalEnd);
}

// Whether any rank has a batch: an evaluation continues until every rank has seen all of its data.
bool EvalLoop::has_any_rank(bool batch) const {
  if (context_.group == nullptr) return batch;
  return dist::sum({batch ? 1.0 : 0.0}, "fetching a batch to evaluate")[0] > 0;
}

// Counts the samples of all ranks.
void EvalLoop::advance(Round round) {
  State& state = context_.state;
  if (context_.group != nullptr) {
    const auto sums =
        dist::sum({static_cast<double>(round.samples), static_cast<double>(round.tokens)},
                  "counting an evaluation's samples");
    round.samples = static_cast<std::int64_t>(sums[0]);
    round.tokens = static_cast<std::int64_t>(sums[1]);
  }
  state.eval_timestamp = state.eval_timestamp.to_next_batch(round.samples, round.tokens,
                                                            TimeDelta::of(round.duration));
}

// Removes repeated samples, which other ranks evaluate, from the end of state.batch. Works on the
// loader's batch, since transforms may change the number of samples. Leaves state.batch empty if
// all of its samples are repeated.
void EvalLoop::remove_repeated(const DataSpec& spec) {
  const DataLoaderBase& loader = *spec.dataloader;
  const auto all = loader.num_samples();
  const auto size = loader.batch_size();
  if (loader.num_repeated() == 0 || !all || !size) return;
  State& state = context_.state;
  const std::int64_t begin = state.eval_timestamp.batch * *size;
  const std::int64_t given = std::min(*size, *all - begin);
  const std::int64_t own = std::max<std::int64_t>(0, *all - loader.num_repeated() - begin);
  if (own >= given) return;
  state.batch = own == 0 ? Batch() : first_samples(spec, state.batch, own);
}

EvalLoop::Round EvalLoop::run_batch(const Evaluator& evaluator, const Metrics& metrics) {
  State& state = context_.state;
  const auto start = std::chrono::steady_clock::now();
  const DataSpec& spec = evaluator.dataloader;
  state.outputs = Outputs();  // Drop the outputs of the last batch.
  if (context_.group != nullptr) {
    remove_repeated(spec);
    if (state.batch.empty()) {
      repeat_passes(state, passes_of_others(state, 0), /*with_backward=*/false);
      return {};
    }
  }
  transform_batch(context_, spec);
  const std::int64_t samples = num_samples_in_batch(spec, state.batch);
  const std::int64_t tokens = num_tokens_in_batch(spec, state.batch);
  context_.engine.run_event(Event::kEvalBatchStart);
  const auto size = evaluator.device_eval_microbatch_size;
  const auto own = state.sharding ? count_microbatches(context_, size) : 0;
  const std::int64_t passes = passes_of_others(state, static_cast<std::int64_t>(own));
  const auto use = [&](double /*share*/) {
    ShardedPass pass(state);
    context_.engine.run_event(Event::kEvalBeforeForward);
    {
      const AutocastGuard autocast(context_.precision, context_.device);
      state.outputs = in_model(context_, "eval_forward()",  //
                               [&] { return state.model->eval_forward(state.batch, nullptr); });
    }
    context_.engine.run_event(Event::kEvalAfterForward);
    update_all_metrics(context_, metrics, state.batch, state.outputs);
    pass.end();
  };
  for_each_microbatch(context_, size, {.use = use});
  repeat_passes(state, passes, /*with_backward=*/false);
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  return {samples, tokens, duration};
}

}  // namespace cairn

#include "train/loop/loop_context.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "cairn/dist/dist.h"
#include "cairn/train/state_dict.h"

#include "dist/team.h"
#include "train/data/data_position.h"
#include "train/data/device_copies.h"
#include "train/loop/failure.h"
#include "train/state/random/base_seed.h"

namespace cairn {
namespace {

// Each metric, merged over all ranks. In a job of one process, the metric itself.
Metrics over_ranks(const LoopContext& context, const Metrics& metrics) {
  if (context.group == nullptr) return metrics;
  List mine;
  for (const auto& [name, metric] : metrics)
    mine.emplace_back(metric->state_dict());
  const std::vector<Value> ranks = Team::of_job().gather_all(std::move(mine));
  Metrics merged;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    std::vector<Value> states;
    for (const Value& rank : ranks)
      states.push_back(rank.as_items().at(i));
    merged.emplace_back(metrics[i].first, metrics[i].second->clone());
    merged.back().second->load_state_dict(metrics[i].second->merge_states(states));
  }
  return merged;
}

// Nested lists of numbers, as Python's tolist().
Value to_list(const at::Tensor& value) {
  if (value.dim() == 0) return value.item<double>();
  List items;
  for (std::int64_t i = 0; i < value.size(0); ++i)
    items.push_back(to_list(value[i]));
  return items;
}

}  // namespace

void start_pass(LoopContext& context, DataLoaderBase& loader, std::int64_t epoch) {
  draw_base_seed();
  if (&loader == context.state.train_dataloader.dataloader.get()) context.train_loader_left = true;
  seed_loader(context.state, loader);
  loader.set_device(context.device);
  loader.start_epoch(epoch, 0);
}

void transform_batch(LoopContext& context, const DataSpec& spec) {
  if (!spec.batch_transforms) return;
  State& state = context.state;
  // Pass a copy of the handles, so that a failure can describe them.
  state.batch = in_batch(context, "batch_transforms()",  //
                         [&] { return spec.batch_transforms(state.batch); });
}

void place_microbatch(LoopContext& context) {
  State& state = context.state;
  state.batch = to_device(std::move(state.batch), context.device);
  const auto& transforms = state.dataloader->microbatch_transforms;
  if (!transforms) return;
  state.batch =
      in_batch(context, "microbatch_transforms()", [&] { return transforms(state.batch); });
}

void update_all_metrics(LoopContext& context, const Metrics& metrics, const Batch& batch,
                        const Outputs& outputs) {
  for (const auto& [key, metric] : metrics) {
    try {
      context.state.model->update_metric(batch, outputs, *metric);
    } catch (...) {
      rethrow_from_batch(context, "update_metric(" + key + ")", /*has_batch=*/true);
    }
  }
}

NamedValues compute_values(const LoopContext& context, const Metrics& metrics) {
  if (metrics.empty()) return {};
  const torch::NoGradGuard no_grad;
  NamedValues values;
  for (const auto& [name, metric] : over_ranks(context, metrics)) {
    values.emplace_back(name, around_batch(context, "computing a metric",
                                           [&each = *metric] { return each.compute(); }));
  }
  return values;
}

void publish_metrics(LoopContext& context, const std::string& label, const NamedValues& computed,
                     std::int64_t batch) {
  if (computed.empty()) return;
  Dict values;
  Dict logged;
  for (const auto& [name, on_device] : computed) {
    const at::Tensor value = around_batch(context, "computing a metric",
                                          [&on_device = on_device] { return on_device.cpu(); });
    const bool is_number = value.numel() == 1;
    const Value kept = is_number ? Value(value.item<double>()) : Value(view_of(value.clone()));
    values.set(name, kept);
    if (context.logging()) {
      logged.set(fmt::format("metrics/{}/{}", label, name), is_number ? kept : to_list(value));
    }
  }
  context.state.metric_values.set(label, std::move(values));
  if (context.logging()) context.logger.log_metrics(logged, batch);
}

void compute_metrics(LoopContext& context, const std::string& label, const Metrics& metrics) {
  publish_metrics(context, label, compute_values(context, metrics), context.state.timestamp.batch);
}

EvalMode::EvalMode(torch::nn::Module& module)
    : module_(module), was_training_(module.is_training()) {
  if (was_training_) module_.eval();
}

EvalMode::~EvalMode() {
  if (was_training_) module_.train();
}

}  // namespace cairn

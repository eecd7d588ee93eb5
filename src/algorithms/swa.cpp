//  1. INIT: copy the model, so that a checkpoint can be loaded into the copy.
//  2. From swa_start on, at the end of each batch or epoch: copy the model once more, so that the
//     mean begins with no sample. Then add a sample whenever update_interval divides the count of
//     these ends, beginning with the first.
//  3. The end at swa_end: put the mean into the model. Nothing happens afterwards.
#include "cairn/algorithms/swa.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/scheduler.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "algorithms/elapsed.h"
#include "algorithms/saved_tensors.h"
#include "algorithms/targets.h"
#include "core/text/float_text.h"
#include "schedulers/running.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

// The rate moves from that at the start to swa_lr. Each step computes the start from the present
// rate, so it also follows another scheduler.
struct SwaLrRule {
  static constexpr const char* kName = "SWALR";
  std::int64_t anneal_epochs;
  double swa_lr;
  AnnealStrategy strategy;

  double share(std::int64_t step) const {
    const double t = static_cast<double>(step) / static_cast<double>(anneal_epochs);
    const double clamped = std::clamp(t, 0.0, 1.0);
    if (strategy == AnnealStrategy::kLinear) return clamped;
    return (1 - std::cos(std::numbers::pi * clamped)) / 2;
  }
  double next(std::int64_t step, double lr, double /*base_lr*/) const {
    const double before = share(step - 1);
    const double start = before == 1 ? swa_lr : (lr - before * swa_lr) / (1 - before);
    return swa_lr * share(step) + start * (1 - share(step));
  }
  static void visit_all(auto& visitor, auto& self) {
    visitor.steps("anneal_epochs", self.anneal_epochs);
    visitor.number("swa_lr", self.swa_lr);
  }
  void visit(SchedulerStateWriter& writer) const { visit_all(writer, *this); }
  void visit(SchedulerStateReader& reader) { visit_all(reader, *this); }
  void visit_last(auto& /*visitor*/, std::size_t /*groups*/) const {}
};

void require_swa(bool holds, const std::string& what, const std::string& found) {
  if (!holds) throw UsageError("SWA: " + what + ", found " + found);
}

void check_bound(const char* name, const Time& time) {
  const std::string text = time.to_string();
  require_swa(time.unit() == TimeUnit::kEpoch || time.unit() == TimeUnit::kDuration,
              fmt::format("{} must be in epochs (\"6ep\") or a fraction (\"0.7dur\")", name), text);
  require_swa(time.unit() == TimeUnit::kEpoch || (time >= 0.0 && time <= 1.0),
              fmt::format("{} must be from 0dur to 1dur", name), text);
}

SWAOptions checked_swa(SWAOptions options) {
  check_bound("swa_start", options.swa_start);
  check_bound("swa_end", options.swa_end);
  const std::string times = options.swa_start.to_string() + " and " + options.swa_end.to_string();
  require_swa(options.swa_start.unit() == options.swa_end.unit(),
              "swa_start and swa_end must have the same unit", times);
  require_swa(options.swa_start < options.swa_end, "swa_end must be later than swa_start", times);
  const Time& interval = options.update_interval;
  require_swa((interval.unit() == TimeUnit::kEpoch || interval.unit() == TimeUnit::kBatch) &&
                  interval.value() >= 1,
              "update_interval must be 1 or more epochs or batches", interval.to_string());
  require_swa(options.anneal_steps >= 1, "anneal_steps must be 1 or more",
              std::to_string(options.anneal_steps));
  require_swa(options.anneal_strategy.value().has_value(),
              "anneal_strategy must be \"linear\" or \"cos\"", options.anneal_strategy);
  return options;
}

std::vector<at::Tensor> tensors_of(const std::vector<std::pair<std::string, at::Tensor>>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named)
    tensors.push_back(tensor);
  return tensors;
}

// Throws UsageError unless the live tensors have the shapes of the copied ones, in the same order.
void check_same_model(const std::vector<at::Tensor>& live, const std::vector<at::Tensor>& copied) {
  const auto same_shape = [](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes();
  };
  if (std::ranges::equal(live, copied, same_shape)) return;
  throw UsageError(
      "SWA: the model's parameters or buffers changed since SWA copied them; replace them before "
      "the Trainer is made");
}

}  // namespace

SWA::SWA(SWAOptions options) : options_(checked_swa(std::move(options))) {}

std::string SWA::repr() const {
  return fmt::format(
      "SWA(swa_start='{}',swa_end='{}',update_interval='{}',schedule_swa_lr={},"
      "anneal_strategy='{}',anneal_steps={},swa_lr={})",
      options_.swa_start.to_string(), options_.swa_end.to_string(),
      options_.update_interval.to_string(), python_bool(options_.schedule_swa_lr),
      options_.anneal_strategy, options_.anneal_steps,
      options_.swa_lr ? python_float_repr(*options_.swa_lr) : "None");
}

bool SWA::match(Event event, const State& state) const {
  if (event == Event::kInit) return true;
  const bool counts_batches = options_.update_interval.unit() == TimeUnit::kBatch;
  if (event != (counts_batches ? Event::kBatchEnd : Event::kEpochEnd) || swa_completed_) {
    return false;
  }
  return has_reached(state, options_.swa_start);
}

void SWA::apply(Event event, State& state, Logger& logger) {
  if (event == Event::kInit) return start(state);
  if (!swa_started_) start(state);
  swa_started_ = true;
  if (step_counter_ % options_.update_interval.value() == 0) update(state);
  ++step_counter_;
  if (!has_reached(state, options_.swa_end)) return;
  replace_weights(state);
  swa_completed_ = true;
  if (has_reached(state, "1dur")) {
    logger.log_message(
        "warning: SWA: the mean replaced the weights at the end of training. No training follows, "
        "so that BatchNorm's statistics do not fit the mean: set swa_end at least an epoch before "
        "the end");
  } else {
    logger.log_message("SWA: the model has the mean of the weights from now on");
  }
}

void SWA::start(const State& state) {
  const torch::nn::Module& module = state.model->module();
  swa_model_.clear();
  std::map<const at::TensorImpl*, at::Tensor> copies;
  for_each_named_tensor(
      module, [&](const std::string& prefix, const std::string& name, const at::Tensor& tensor) {
        at::Tensor& copy = copies[tensor.unsafeGetTensorImpl()];
        if (!copy.defined())
          copy = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
        swa_model_.emplace_back("module." + prefix + name, copy);
      });
  const auto copies_of = [&](const std::vector<at::Tensor>& live) {
    std::vector<at::Tensor> result;
    for (const at::Tensor& tensor : live)
      result.push_back(copies.at(tensor.unsafeGetTensorImpl()));
    return result;
  };
  parameters_ = copies_of(cairn::parameters(module));
  buffers_ = copies_of(tensors_of(named_buffers(module)));
  n_averaged_ = at::zeros({}, at::kLong);
  if (!options_.schedule_swa_lr || !state.optimizer) return;
  const std::vector<double> rates = learning_rates(*state.optimizer);
  if (!options_.swa_lr && rates.size() != 1) {
    throw UsageError(fmt::format(
        "SWA: schedule_swa_lr without swa_lr needs one parameter group, and the optimizer has {}: "
        "give swa_lr",
        rates.size()));
  }
  swa_scheduler_ = std::make_shared<Running<SwaLrRule>>(
      *state.optimizer, SwaLrRule{.anneal_epochs = options_.anneal_steps,
                                  .swa_lr = options_.swa_lr ? *options_.swa_lr : rates[0],
                                  .strategy = *options_.anneal_strategy.value()});
}

// As PyTorch averages on the CPU, where Composer keeps the copy.
void SWA::update(const State& state) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> live = cairn::parameters(state.model->module());
  const std::vector<at::Tensor> live_buffers = tensors_of(named_buffers(state.model->module()));
  check_same_model(live, parameters_);
  check_same_model(live_buffers, buffers_);
  const auto count = n_averaged_.item<std::int64_t>();
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (count == 0) {
      parameters_[i].copy_(live[i]);
    } else {
      const at::Tensor difference = live[i].to(parameters_[i].device()) - parameters_[i];
      parameters_[i].add_(difference.div(count + 1));
    }
  }
  for (std::size_t i = 0; i < live_buffers.size(); ++i)
    buffers_[i].copy_(live_buffers[i]);
  n_averaged_ += 1;
  if (swa_scheduler_) swa_scheduler_->step();
}

void SWA::replace_weights(const State& state) const {
  const torch::NoGradGuard no_grad;
  const torch::nn::Module& module = state.model->module();
  const auto copy_to = [](const std::vector<at::Tensor>& live,
                          const std::vector<at::Tensor>& averaged) {
    check_same_model(live, averaged);
    for (std::size_t i = 0; i < live.size(); ++i)
      live[i].copy_(averaged[i]);
  };
  copy_to(cairn::parameters(module), parameters_);
  copy_to(tensors_of(named_buffers(module)), buffers_);
}

Value SWA::state_dict() const {
  Value model;  // None before INIT
  if (n_averaged_.defined()) {
    Dict tensors = Dict::ordered();
    tensors.set("n_averaged", view_of(n_averaged_));
    for (const auto& [name, tensor] : swa_model_)
      tensors.set(name, view_of(tensor));
    model = std::move(tensors);
  }
  return Dict{{"swa_model", std::move(model)},
              {"swa_completed", swa_completed_},
              {"swa_started", swa_started_},
              {"swa_scheduler", swa_scheduler_ ? swa_scheduler_->state_dict() : Value()},
              {"step_counter", step_counter_},
              {"repr", repr()}};
}

void SWA::load_state_dict(const Value& saved, const State& /*live*/) {
  std::vector<std::string> misfits;
  std::vector<std::pair<std::string, at::Tensor>> templates = swa_model_;
  templates.emplace_back("n_averaged", n_averaged_);
  const auto tensors = read_tensors(saved.find("swa_model"), templates, "swa_model", misfits);
  const bool completed = read_flag(saved, "swa_completed", misfits);
  const bool started = read_flag(saved, "swa_started", misfits);
  const std::int64_t counter = read_count(saved, "step_counter", misfits);
  throw_misfits("SWA", misfits);
  const Value* scheduler = saved.find("swa_scheduler");
  if (swa_scheduler_ && scheduler != nullptr && !scheduler->is_none()) {
    swa_scheduler_->load_state_dict(*scheduler);
  }
  for (std::size_t i = 0; i < templates.size(); ++i)
    templates[i].second.copy_(tensors[i].second);
  swa_completed_ = completed;
  swa_started_ = started;
  step_counter_ = counter;
}

}  // namespace cairn

#include "testing/tiny_model.h"

#include <algorithm>
#include <limits>

#include "cairn/optim/optimizers.h"

namespace cairn::testing {
namespace {

at::Generator generator(std::uint64_t seed) { return at::detail::createCPUGenerator(seed); }

}  // namespace

void MeanOutput::update(const at::Tensor& outputs, const at::Tensor& /*target*/) {
  const at::Tensor sum = outputs.to(at::kDouble).sum();
  sum_ = sum_.defined() ? sum_ + sum : sum;
  count_ += outputs.numel();
}

at::Tensor MeanOutput::compute() {
  if (count_ == 0) return at::scalar_tensor(std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  return sum_ / static_cast<double>(count_);
}

TinyModel::TinyModel(TinyModelOptions options)
    : options_(options), net_(std::make_shared<torch::nn::Module>("TinyNet")) {
  const at::Tensor state = torch::globalContext().defaultGenerator(at::kCPU).get_state();
  first_ = net_->register_module("first", torch::nn::Linear(4, 8));
  second_ = net_->register_module("second", torch::nn::Linear(8, 3));
  at::Generator global = torch::globalContext().defaultGenerator(at::kCPU);
  global.set_state(state);
  net_->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  at::Generator own = generator(options.seed);
  for (at::Tensor& parameter : net_->parameters()) {
    parameter.copy_(at::randn(parameter.sizes(), own, parameter.options()) * 0.3);
  }
}

Outputs TinyModel::forward(const Batch& batch) {
  at::Tensor hidden = torch::tanh(first_->forward(batch[0]));
  if (options_.dropout > 0) hidden = torch::dropout(hidden, options_.dropout, net_->is_training());
  return second_->forward(hidden);
}

Losses TinyModel::loss(const Outputs& outputs, const Batch& batch) {
  const at::Tensor ce = torch::nn::functional::cross_entropy(outputs.single(), batch[1]);
  if (!options_.by_name) return ce;
  const at::Tensor l2 = first_->weight.square().sum();
  return Losses::named({{"ce", ce}, {"l2", l2}, {"total", ce + 0.01 * l2}});
}

Metrics TinyModel::get_metrics(bool /*is_train*/) {
  if (!options_.metrics) return {};
  return {{"MeanOutput", std::make_shared<MeanOutput>()}};
}

std::shared_ptr<Dataset> tiny_dataset(std::int64_t samples, std::uint64_t seed) {
  at::Generator own = generator(seed);
  const at::Tensor x = at::randn({samples, 4}, own, at::kDouble);
  const at::Tensor y = at::randint(0, 3, {samples}, own, at::kLong);
  return tensor_dataset({x, y});
}

DataLoader tiny_loader(std::int64_t samples, DataLoaderOptions options) {
  return DataLoader(tiny_dataset(samples), options);
}

TrainerOptions tiny_options(TinyModelOptions model) {
  TrainerOptions options;
  options.model = std::make_shared<TinyModel>(model);
  options.train_dataloader = tiny_loader(10);
  options.max_duration = "2ep";
  options.optimizers = SGD({.lr = 0.1});
  options.progress_bar = false;
  options.device = "cpu";
  options.seed = 3;
  options.handle_signals = false;
  return options;
}

at::Tensor weights_of(Model& model) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& parameter : model.module().parameters()) {
    flat.push_back(parameter.detach().flatten().clone());
  }
  return torch::cat(flat);
}

void EventRecorder::run_event(Event event, State& /*state*/, Logger& /*logger*/) {
  events.emplace_back(cairn::name(event));
}

void EventRecorder::close(State& /*state*/, Logger& /*logger*/) { events.emplace_back("close"); }

std::int64_t EventRecorder::count(const std::string& event) const {
  return std::ranges::count(events, event);
}

void CallAt::run_event(Event event, State& state, Logger& /*logger*/) {
  if (event == event_) action_(state);
}

void LogRecorder::log_metrics(const Dict& logged, std::int64_t step) {
  for (const auto& [key, value] : logged) {
    metrics.emplace_back(key.as_str(), value);
    steps.push_back(step);
  }
}

void LogRecorder::log_hyperparameters(const Dict& logged) {
  for (const auto& [key, value] : logged)
    hyperparameters.set(key, value);
}

void LogRecorder::log_traces(const Dict& logged) {
  for (const auto& [key, value] : logged)
    traces.push_back(key.as_str());
}

std::vector<double> LogRecorder::values(const std::string& key) const {
  std::vector<double> found;
  for (const auto& [name, value] : metrics) {
    if (name == key) found.push_back(value.as_float());
  }
  return found;
}

}  // namespace cairn::testing

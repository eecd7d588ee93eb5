#include "cairn/callbacks/activation_monitor.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/counted_interval.h"

namespace cairn {
namespace {

using LayersByTensor = std::map<const c10::TensorImpl*, std::string>;

LayersByTensor layers_by_tensor(const torch::nn::Module& network) {
  LayersByTensor layers;
  for (const auto& layer : network.named_modules()) {
    const auto add = [&](const auto& tensors) {
      for (const auto& tensor : tensors) {
        if (tensor.value().defined()) {
          layers.emplace(tensor.value().unsafeGetTensorImpl(), layer.key());
        }
      }
    };
    add(layer.value()->named_parameters(/*recurse=*/false));
    add(layer.value()->named_buffers(/*recurse=*/false));
  }
  return layers;
}

void collect_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) tensors.push_back(tensor);
    }
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements())
      collect_tensors(item, tensors);
  }
}

at::Tensor mean_kurtosis(const at::Tensor& values) {
  const at::Tensor diffs = values - values.mean(-1, /*keepdim=*/true);
  const at::Tensor variance = diffs.pow(2).mean(-1);
  return (diffs.pow(4).mean(-1) / variance.pow(2)).mean();
}

}  // namespace

// Observes the operators of this thread while it lives. libtorch's callbacks are functions, not
// closures, so they find the watch through a thread_local. Threads that inherit the callbacks from
// this one have no watch.
class ActivationMonitor::Watch {
 public:
  Watch(const torch::nn::Module& network, const std::vector<std::string>& ignored)
      : layers_(layers_by_tensor(network)), ignored_(ignored) {}
  ~Watch() {
    at::removeCallback(handle_);
    current = outer_;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // All figures, fetched together.
  Dict metrics() const {
    std::vector<at::Tensor> values;
    for (const auto& [key, value] : figures_)
      values.push_back(value);
    if (values.empty()) return {};
    for (at::Tensor& value : values)
      value = value.to(values.front().device());
    const at::Tensor fetched = at::stack(values).cpu();
    Dict metrics;
    std::int64_t next = 0;
    for (const auto& [key, value] : figures_)
      metrics.set(key, fetched[next++].item<double>());
    return metrics;
  }

 private:
  // The outermost operator that has a tensor of a layer.
  struct LayerCall final : at::ObserverContext {
    std::string layer;
    std::vector<at::Tensor> inputs;  // without the layer's own
  };

  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& call) {
    if (current == nullptr || current->is_inside_) return nullptr;
    return current->start_call(call);
  }
  static void end(const at::RecordFunction& call, at::ObserverContext* context) {
    if (context == nullptr || current == nullptr) return;
    current->end_call(call, static_cast<LayerCall&>(*context));
  }

  std::unique_ptr<at::ObserverContext> start_call(const at::RecordFunction& call) {
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& value : call.inputs())
      collect_tensors(value, tensors);
    auto found = std::make_unique<LayerCall>();
    bool is_of_layer = false;
    for (const at::Tensor& tensor : tensors) {
      const auto layer = layers_.find(tensor.unsafeGetTensorImpl());
      if (layer == layers_.end()) {
        found->inputs.push_back(tensor);
      } else {
        found->layer = layer->second;
        is_of_layer = true;
      }
    }
    if (!is_of_layer) return nullptr;
    is_inside_ = true;
    return found;
  }

  // Operators of the figures are not observed, because is_inside_ is true until the end. libtorch's
  // Linear transposes its weight, and in older versions adds the bias in an operator of its own. So
  // a view of a layer's tensors belongs to the layer, too, and the figures are those of the first
  // operator's inputs and of the last one's outputs.
  void end_call(const at::RecordFunction& call, const LayerCall& layer_call) {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> outputs;
    for (const c10::IValue& value : call.outputs())
      collect_tensors(value, outputs);
    if (layer_call.inputs.empty()) {
      for (const at::Tensor& output : outputs) {
        layers_.emplace(output.unsafeGetTensorImpl(), layer_call.layer);
        views_.push_back(output);
      }
    } else if (!is_ignored(layer_call.layer)) {
      for (std::size_t i = 0; i < layer_call.inputs.size(); ++i) {
        const std::string name = layer_call.layer + "_input." + std::to_string(i);
        if (!figures_.contains("activations/average/" + name)) add(name, layer_call.inputs[i]);
      }
      for (std::size_t i = 0; i < outputs.size(); ++i)
        add(layer_call.layer + "_output." + std::to_string(i), outputs[i]);
    }
    is_inside_ = false;
  }

  bool is_ignored(const std::string& layer) const {
    return std::ranges::any_of(ignored_, [&layer](const std::string& text) {
      return layer.find(text) != std::string::npos;
    });
  }

  void add(const std::string& name, const at::Tensor& tensor) {
    if (!tensor.is_floating_point() || tensor.dim() == 0 || tensor.numel() == 0) return;
    const at::Tensor values = tensor.detach().to(at::kFloat);
    figures_["activations/l2_norm/" + name] = values.norm(2, -1).mean();
    figures_["activations/average/" + name] = values.mean();
    figures_["activations/kurtosis/" + name] = mean_kurtosis(values);
    figures_["activations/max/" + name] = values.amax(-1).mean();
  }

  static thread_local Watch* current;

  LayersByTensor layers_;
  std::vector<at::Tensor> views_;  // keeps their addresses in layers_ valid
  const std::vector<std::string>& ignored_;
  std::map<std::string, at::Tensor> figures_;
  bool is_inside_ = false;  // in an operator that is logged
  Watch* outer_ = std::exchange(current, this);
  at::CallbackHandle handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(start, end)
                                                              .needsInputs(true)
                                                              .needsOutputs(true)
                                                              .scopes({at::RecordScope::FUNCTION}));
};

thread_local ActivationMonitor::Watch* ActivationMonitor::Watch::current = nullptr;

ActivationMonitor::ActivationMonitor(ActivationMonitorOptions options)
    : options_(std::move(options)) {
  check_counted_interval("ActivationMonitor", options_.interval.time());
}
ActivationMonitor::~ActivationMonitor() = default;
ActivationMonitor::ActivationMonitor(ActivationMonitor&&) noexcept = default;
ActivationMonitor& ActivationMonitor::operator=(ActivationMonitor&&) noexcept = default;

void ActivationMonitor::batch_start(State& state, Logger& /*logger*/) {
  const Time& interval = options_.interval.time();
  const bool is_epochs = interval.unit() == TimeUnit::kEpoch;
  is_due_ = state.timestamp.get(interval.unit()).value() % interval.value() == 0 &&
            (!is_epochs || state.timestamp.batch_in_epoch == 0);
}

void ActivationMonitor::before_forward(State& state, Logger& /*logger*/) {
  const bool is_again = watch_ != nullptr;  // The last forward() failed, and is repeated.
  watch_.reset();
  if (!std::exchange(is_due_, false) && !is_again) return;
  watch_ = std::make_unique<Watch>(state.model->module(), options_.ignore_module_types);
}

void ActivationMonitor::after_forward(State& /*state*/, Logger& logger) {
  if (!watch_) return;
  const Dict metrics = watch_->metrics();
  watch_.reset();
  logger.log_metrics(metrics);
}

// The watch still lives if forward() has ended the run.
void ActivationMonitor::close(State& /*state*/, Logger& /*logger*/) { watch_.reset(); }

}  // namespace cairn

#include "train/engine/layer_watch.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/text/class_name.h"

namespace cairn {
namespace {

// Tensors, identified by address. A handle would keep them alive, or prevent copy-on-write.
using Inputs = std::vector<const c10::TensorImpl*>;

struct OperatorCall final : at::ObserverContext {
  Inputs inputs;
};

void collect(const c10::IValue& value, Inputs& inputs) {
  if (value.isTensor()) {
    inputs.push_back(value.unsafeToTensorImpl());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      inputs.push_back(tensor.unsafeGetTensorImpl());
    }
  }
}

using LayerNames = std::map<const c10::TensorImpl*, std::string>;

LayerNames layer_names(const torch::nn::Module& network) {
  LayerNames names;
  for (const auto& layer : network.named_modules()) {
    const std::string kind = layer_class(*layer.value());
    const std::string text = layer.key().empty() ? kind : fmt::format("{} ({})", layer.key(), kind);
    const auto add = [&](const auto& tensors) {
      for (const auto& tensor : tensors) {
        if (tensor.value().defined()) names.emplace(tensor.value().unsafeGetTensorImpl(), text);
      }
    };
    add(layer.value()->named_parameters(/*recurse=*/false));
    add(layer.value()->named_buffers(/*recurse=*/false));
  }
  return names;
}

std::optional<std::string> layer_of(const Inputs& inputs, const LayerNames& names) {
  for (const c10::TensorImpl* input : inputs) {
    const auto found = names.find(input);
    if (found != names.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace

std::string layer_class(const torch::nn::Module& layer) {
  std::string full_name = layer.name();
  constexpr std::string_view kUnit = "cairn::ShardedImpl<";  // The wrapper of a sharded unit.
  if (full_name.starts_with(kUnit)) {
    full_name = full_name.substr(kUnit.size(), full_name.find(',') - kUnit.size());
  }
  std::string name = without_namespaces(full_name);
  constexpr std::string_view kImplSuffix = "Impl";  // torch::nn::LinearImpl
  if (name.ends_with(kImplSuffix) && name.size() > kImplSuffix.size()) {
    name.resize(name.size() - kImplSuffix.size());
  }
  return name;
}

// libtorch's callbacks are functions, not closures, so they find their observer through a
// thread_local. Other threads may run these callbacks without an observer: libtorch copies its
// own thread-local state, with the callbacks, to the threads that work for this one (c10d's,
// autograd's). Some of these threads keep the callbacks after the watch has ended.
struct LayerWatch::Observer {
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& call) {
    if (current == nullptr) return nullptr;
    Observer& self = *current;
    self.failed.clear();  // This call shows that an earlier failure was caught.
    auto context = std::make_unique<OperatorCall>();
    for (const c10::IValue& value : call.inputs()) {
      collect(value, context->inputs);
    }
    return context;
  }

  static void end(const at::RecordFunction& call, at::ObserverContext* context) {
    if (context == nullptr || current == nullptr) return;
    Observer& self = *current;
    Inputs& inputs = static_cast<OperatorCall*>(context)->inputs;
    if (std::uncaught_exceptions() > self.exceptions_before) {
      self.failed.emplace_back(call.name(), std::move(inputs));
    } else {
      self.computed.push_back(std::move(inputs));
    }
  }

  static thread_local Observer* current;

  Observer* outer = std::exchange(current, this);
  int exceptions_before = std::uncaught_exceptions();
  std::vector<std::pair<std::string, Inputs>> failed;  // the innermost operator first
  std::vector<Inputs> computed;
  at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(start, end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
};

thread_local LayerWatch::Observer* LayerWatch::Observer::current = nullptr;

LayerWatch::LayerWatch() : observer_(std::make_unique<Observer>()) {}

LayerWatch::~LayerWatch() {
  at::removeCallback(observer_->handle);
  Observer::current = observer_->outer;
}

std::string LayerWatch::failed_layer(const torch::nn::Module& network) const {
  const auto& failed = observer_->failed;
  if (failed.empty()) return "";
  const LayerNames names = layer_names(network);
  for (const auto& [operation, inputs] : failed) {
    if (const auto layer = layer_of(inputs, names)) {
      return fmt::format("{}, in {}", *layer, operation);
    }
  }
  const std::string& outermost = failed.back().first;
  const auto& computed = observer_->computed;
  for (auto inputs = computed.rbegin(); inputs != computed.rend(); ++inputs) {
    if (const auto layer = layer_of(*inputs, names)) {
      return fmt::format("after {}, in {}", *layer, outermost);
    }
  }
  return "before any layer, in " + outermost;
}

std::size_t KnownBatches::kind_of(std::string_view doing, const Batch& batch) {
  std::size_t kind = std::hash<std::string_view>()(doing) + batch.size();
  const auto mix = [&kind](std::uint64_t word) {  // FNV-1a, word by word
    kind = (kind ^ static_cast<std::size_t>(word)) * 0x100000001b3;
  };
  for (const at::Tensor& tensor : batch.tensors()) {
    if (!tensor.defined() || tensor.is_nested()) {
      mix(0);
      continue;
    }
    mix(static_cast<std::uint64_t>(tensor.scalar_type()) + 1);
    mix(static_cast<std::uint64_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes()) {
      mix(static_cast<std::uint64_t>(size));
    }
  }
  return kind;
}

void KnownBatches::insert(std::string_view doing, const Batch& batch) {
  constexpr std::size_t kMax = 4096;  // Enough: beyond it, batches are watched although their
                                      // shapes may repeat.
  if (kinds_.size() < kMax) kinds_.insert(kind_of(doing, batch));
}

}  // namespace cairn

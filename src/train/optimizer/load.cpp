// Loads an optimizer's state:
//
//  1. Match every live group to a saved group by position, as PyTorch does. Match the parameters
//     inside the group by name if the file has names, else by position. List names or numbers that
//     differ.
//  2. Read each saved group and each saved parameter state into fresh objects. A parameter that the
//     file lists without a state had no gradient before the save.
//  3. List states of parameters that no group names.
//  4. Only if steps 1 to 3 listed nothing, replace the live objects with the fresh objects.
#include "train/optimizer/load.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <set>

#include "cairn/error.h"

#include "train/optimizer/param_state.h"
#include "train/optimizer/parameter_names.h"
#include "train/optimizer/state_format.h"
#include "train/state/device/device_storage.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMaxWaiting = std::uint64_t{64} << 20;

using OptionsPointer = std::unique_ptr<torch::optim::OptimizerOptions>;
using StatePointer = std::unique_ptr<torch::optim::OptimizerParamState>;

std::string text_of(const Value& key) {
  if (key.is_str()) return "\"" + key.as_str() + "\"";
  if (key.is_int()) return std::to_string(key.as_int());
  return std::string(key.type_name());
}

class OptimizerLoadPlan final : public OptimizerLoad {
 public:
  OptimizerLoadPlan(torch::optim::Optimizer& optimizer, const torch::nn::Module& module)
      : optimizer_(optimizer),
        layout_(layout_of(optimizer)),
        live_(named_groups(optimizer, module)) {}

  void read(const Value& saved);
  void prepare() override;
  void apply() noexcept override;

 private:
  void read_group(std::size_t g, const Dict& saved);
  // The file's keys of the live group's parameters; empty if the parameters do not fit.
  std::vector<Value> match_parameters(std::size_t g, const Value* params);
  std::vector<Value> match_names(std::size_t g, const List& params);
  void read_state(const Value& key, std::size_t g, std::size_t i);
  void refuse_unlisted_states();

  torch::optim::Optimizer& optimizer_;
  const OptimizerLayout& layout_;
  std::vector<NamedGroup> live_;
  const Dict* saved_states_ = nullptr;
  Dict listed_;  // Keys of all parameters in the file's groups.
  std::vector<OptionsPointer> options_;
  std::vector<std::pair<at::Tensor, StatePointer>> states_;
  std::vector<at::Tensor> shared_;  // Tensors in states_ that share the memory of the saved ones.
  DeviceUploads uploads_;           // For states_.
  ParamStates fresh_;               // Filled by prepare().
};

// Accepts a missing "state". An optimizer without state (SGD) has none in a folder of
// torch.distributed.checkpoint, which keeps no empty dicts.
void OptimizerLoadPlan::read(const Value& saved) {
  static const Value kNone = Dict();
  const Value* states = saved.is_dict() ? saved.find("state") : nullptr;
  const Value* groups = saved.is_dict() ? saved.find("param_groups") : nullptr;
  if (states == nullptr) states = &kNone;
  if (!states->is_dict() || groups == nullptr || !groups->is_list()) {
    misfits.emplace_back(
        "an optimizer's state is a dict with a dict \"state\" and a list \"param_groups\"");
    return;
  }
  const List& saved_groups = groups->as_items();
  if (saved_groups.size() != live_.size()) {
    misfits.push_back(fmt::format("{} parameter groups were saved, the optimizer has {}",
                                  saved_groups.size(), live_.size()));
    return;
  }
  saved_states_ = &states->as_dict();
  options_.resize(saved_groups.size());
  for (std::size_t g = 0; g < saved_groups.size(); ++g) {
    if (saved_groups[g].is_dict()) {
      read_group(g, saved_groups[g].as_dict());
    } else {
      misfits.push_back(
          fmt::format("param_groups/{} is a {}, not a dict", g, saved_groups[g].type_name()));
    }
  }
  refuse_unlisted_states();
}

void OptimizerLoadPlan::read_group(std::size_t g, const Dict& saved) {
  const auto& live = optimizer_.param_groups()[g];
  options_[g] = cairn::read_group(
      layout_, {saved, fmt::format("param_groups/{}", g), live.options()}, misfits);
  const std::vector<Value> keys = match_parameters(g, saved.find("params"));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    read_state(keys[i], g, i);
  }
}

std::vector<Value> OptimizerLoadPlan::match_parameters(std::size_t g, const Value* params) {
  if (params == nullptr || !(params->is_list() || params->is_tuple())) {
    misfits.push_back(fmt::format("param_groups/{} has no list \"params\"", g));
    return {};
  }
  const List& keys = params->as_items();
  bool are_names = !keys.empty();
  for (const Value& key : keys) {
    if (!key.is_str() && !key.is_int()) {
      misfits.push_back(fmt::format("param_groups/{}/params holds a {}", g, key.type_name()));
      return {};
    }
    listed_.set(key, None{});
    are_names = are_names && key.is_str();
  }
  if (are_names) return match_names(g, keys);
  if (keys.size() == live_[g].size()) return keys;
  misfits.push_back(
      fmt::format("param_groups/{} was saved with {} parameters, the optimizer's has "
                  "{}",
                  g, keys.size(), live_[g].size()));
  return {};
}

std::vector<Value> OptimizerLoadPlan::match_names(std::size_t g, const List& params) {
  std::set<std::string> saved;
  for (const Value& key : params) {
    saved.insert(key.as_str());
  }
  std::vector<Value> keys;
  for (const auto& [name, parameter] : live_[g]) {
    if (saved.erase(name) == 0) {
      misfits.push_back(
          fmt::format("\"{}\" is not among the saved parameters of group {}", name, g));
    }
    keys.emplace_back(name);
  }
  for (const std::string& name : saved) {
    misfits.push_back(
        fmt::format("saved parameter \"{}\" is not in the optimizer's group {}", name, g));
  }
  return keys;
}

void OptimizerLoadPlan::read_state(const Value& key, std::size_t g, std::size_t i) {
  const auto& [name, parameter] = live_[g][i];
  const torch::optim::OptimizerOptions& options = *options_[g];
  const Value* saved = saved_states_->find(key);
  StatePointer state;
  if (saved == nullptr) {
    state = layout_.initial_state(parameter, options);
  } else if (saved->is_dict()) {
    const auto& group = optimizer_.param_groups()[g].params();
    state = cairn::read_state(
        layout_, {saved->as_dict(), name, parameter, group, options, shared_, uploads_}, misfits);
  } else {
    misfits.push_back(fmt::format("state/{} is a {}, not a dict", name, saved->type_name()));
  }
  if (state) states_.emplace_back(parameter, std::move(state));
  // The host holds what was read for a device until finish().
  if (uploads_.bytes() >= kMaxWaiting) uploads_.finish();
}

void OptimizerLoadPlan::refuse_unlisted_states() {
  for (const auto& [key, unused] : *saved_states_) {
    if (listed_.find(key) == nullptr) {
      misfits.push_back(fmt::format("state of {}, which is in no parameter group", text_of(key)));
    }
  }
}

void OptimizerLoadPlan::prepare() {
  uploads_.finish();
  for (const at::Tensor& tensor : shared_) {
    if (tensor.storage().use_count() == 1) continue;
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(tensor.clone().storage());
  }
  for (auto& [parameter, state] : states_) {
    fresh_[param_state_key<ParamStateKey>(parameter)] = std::move(state);
  }
}

void OptimizerLoadPlan::apply() noexcept {
  for (std::size_t g = 0; g < options_.size(); ++g) {
    optimizer_.param_groups()[g].set_options(std::move(options_[g]));
  }
  optimizer_.state().swap(fresh_);  // std::swap() would make an empty map, which allocates.
}

}  // namespace

std::unique_ptr<OptimizerLoad> plan_optimizer_load(torch::optim::Optimizer& optimizer,
                                                   const torch::nn::Module& module,
                                                   const Value& state) {
  auto plan = std::make_unique<OptimizerLoadPlan>(optimizer, module);
  plan->read(state);
  return plan;
}

void load_optimizer_state_dict(torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                               const Value& state) {
  const auto load = plan_optimizer_load(optimizer, module, state);
  if (!load->misfits.empty()) {
    std::string message = "the saved state does not fit the optimizer (" +
                          optimizer_name(optimizer) + "), nothing was changed:";
    for (const std::string& misfit : load->misfits) {
      message += "\n  " + misfit;
    }
    throw MismatchError(message);
  }
  load->prepare();
  load->apply();
}

}  // namespace cairn

#include "dist/sharding/cut_module.h"

#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"

#include "dist/page_tensor.h"

namespace cairn::dist {
namespace {

// A model of this size computes for much longer than releasing the heap takes.
constexpr std::int64_t kTrimmedBytes = std::int64_t{64} << 20;

at::Device device_of(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  return parameters.empty() ? at::kCPU : parameters.front().device();
}

void check_can_be_sharded(const std::string& name, const at::Tensor& tensor, at::Device device) {
  if (tensor.dim() == 0) {
    throw UnsupportedError("the parameter " + name +
                           " has no dimension along which it could be sharded: give it the "
                           "shape [1]");
  }
  if (tensor.device() != device || tensor.layout() != at::kStrided) {
    throw UnsupportedError("the parameter " + name + " cannot be sharded: it must be dense, on " +
                           device.str() + ", where the model's first is");
  }
}

}  // namespace

struct CutModule::Collected {
  struct Found {
    std::string name;
    at::Tensor tensor;
    std::size_t unit;
  };
  std::vector<Found> parameters;  // Each once, in the order of names.
  std::unordered_map<const c10::TensorImpl*, std::size_t> known;
  std::vector<ShardedUnit*> wrapped = {nullptr};
  std::vector<std::string> names = {""};
  bool wraps = true;
};

void CutModule::collect(const torch::nn::Module& module, const std::string& name, std::size_t unit,
                        Collected& found) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    if (!item.value().defined()) continue;
    const auto [place, is_new] =
        found.known.try_emplace(item.value().unsafeGetTensorImpl(), found.parameters.size());
    if (is_new) {
      found.parameters.push_back({name + item.key(), item.value(), unit});
    } else if (found.parameters[place->second].unit != unit) {
      found.parameters[place->second].unit = kRoot;
    }
  }
  for (const auto& item : module.named_children()) {
    if (item.value() == nullptr) continue;
    const std::string child = name + item.key();
    auto* const wrapped = dynamic_cast<ShardedUnit*>(item.value().get());
    std::size_t own = unit;
    if (wrapped != nullptr && found.wraps) {
      own = static_cast<std::size_t>(std::ranges::find(found.wrapped, wrapped) -
                                     found.wrapped.begin());
      if (own == found.wrapped.size()) {
        found.wrapped.push_back(wrapped);
        found.names.push_back(child);
      }
    }
    collect(*item.value(), child + ".", own, found);
  }
}

CutModule::CutModule(Group& group, const MeshShape& shape, torch::nn::Module& module,
                     const FSDPConfig& config)
    : mesh_(group, shape, device_of(module)), dtypes_(unit_dtypes(config)) {
  Collected found;
  found.wraps = config.auto_wrap;
  auto* const outermost = dynamic_cast<ShardedUnit*>(&module);
  if (outermost != nullptr && found.wraps) {
    found.wrapped.push_back(outermost);
    found.names.emplace_back("(the module itself)");
  }
  collect(module, "", found.wrapped.size() - 1, found);
  wrapped_ = found.wrapped;
  std::vector<ShardUnit::NamedParameters> of_units(wrapped_.size());
  for (auto& [name, tensor, unit] : found.parameters) {
    check_can_be_sharded(name, tensor, mesh_.row().device);
    places_[tensor.unsafeGetTensorImpl()] = {unit, of_units[unit].size()};
    of_units[unit].emplace_back(name, tensor);
  }
  for (std::size_t i = 0; i < of_units.size(); ++i) {
    // Modules that cast nothing use the root's parameters, so the root has the default UnitDtypes.
    units_.push_back(std::make_unique<ShardUnit>(mesh_, found.names[i], std::move(of_units[i]),
                                                 i == kRoot ? UnitDtypes() : dtypes_));
  }
}

const ShardParameter* CutModule::find(const at::Tensor& parameter) const {
  const auto place = places_.find(parameter.unsafeGetTensorImpl());
  if (place == places_.end()) return nullptr;
  return &units_[place->second.first]->parameters()[place->second.second];
}

std::string CutModule::text_of(std::size_t unit) const {
  return unit == kRoot ? "the parameters of no unit" : "the unit " + units_[unit]->name();
}

void CutModule::finish_gather(std::size_t unit) {
  units_[unit]->finish_gather("gathering " + text_of(unit));
  std::int64_t whole = 0;
  for (const auto& each : units_)
    whole += each->is_whole() ? each->whole_bytes() : 0;
  peak_whole_bytes_ = std::max(peak_whole_bytes_, whole);
}

void CutModule::release() {
  std::int64_t bytes = 0;
  for (const auto& unit : units_) {
    unit->release();
    bytes += unit->whole_bytes();
  }
  // The gradients of wholes, which autograd makes, and c10d's copies come from malloc.
  if (mesh_.row().device.is_cpu() && bytes >= kTrimmedBytes) give_back_heap();
}

}  // namespace cairn::dist

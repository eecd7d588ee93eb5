#include "dist/sharding/shard_passes.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "dist/page_tensor.h"

namespace cairn::dist {
namespace {

constexpr std::size_t kRoot = 0;
// A model of this size computes for much longer than giving back the heap takes.
constexpr std::int64_t kTrimmedBytes = std::int64_t{64} << 20;

std::string text_of(std::size_t unit, const ShardUnit& of) {
  return unit == kRoot ? "the parameters of no unit" : "the unit " + of.name();
}

UnitDtypes dtypes_of(const FSDPConfig& config) {
  UnitDtypes types;
  if (const auto* chosen = std::get_if<FSDPMixedPrecision>(&config.mixed_precision)) {
    types.compute = find_floating_dtype(chosen->param_dtype);
    types.reduce = find_floating_dtype(chosen->reduce_dtype);
  }
  return types;
}

}  // namespace

// Which unit has which parameters. What several have is the root's: they would be whole at
// different times.
struct Sharding::Collected {
  struct Found {
    std::string name;
    at::Tensor tensor;
    std::size_t unit;
  };
  std::vector<Found> parameters;  // each once, in the order of names
  std::unordered_map<const c10::TensorImpl*, std::size_t> known;
  std::vector<ShardedUnit*> wrapped = {nullptr};
  std::vector<std::string> names = {""};
  bool wraps = true;
};

void Sharding::collect(const torch::nn::Module& module, const std::string& name, std::size_t unit,
                       Collected& found) const {
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

void Sharding::make_units(const FSDPConfig& config) {
  Collected found;
  found.wraps = config.auto_wrap;
  auto* const outermost = dynamic_cast<ShardedUnit*>(module_.get());
  if (outermost != nullptr && found.wraps) {
    found.wrapped.push_back(outermost);
    found.names.emplace_back("(the module itself)");
  }
  collect(*module_, "", found.wrapped.size() - 1, found);
  wrapped_ = found.wrapped;
  std::vector<ShardUnit::NamedParameters> of_units(wrapped_.size());
  for (auto& [name, tensor, unit] : found.parameters) {
    if (tensor.dim() == 0) {
      throw UnsupportedError("the parameter " + name +
                             " has no dimension along which it could be sharded: give it the "
                             "shape [1]");
    }
    if (tensor.device() != mesh_->row().device || tensor.layout() != at::kStrided) {
      throw UnsupportedError("the parameter " + name + " cannot be sharded: it must be dense, on " +
                             mesh_->row().device.str() + ", where the model's first is");
    }
    places_[tensor.unsafeGetTensorImpl()] = {unit, of_units[unit].size()};
    of_units[unit].emplace_back(name, tensor);
  }
  for (std::size_t i = 0; i < of_units.size(); ++i) {
    // Parameters of no unit are used by modules that cast nothing.
    units_.push_back(std::make_unique<ShardUnit>(*mesh_, found.names[i], std::move(of_units[i]),
                                                 i == kRoot ? UnitDtypes() : dtypes_));
  }
  has_sent_.assign(units_.size(), false);
}

Sharding::Sharding(Group* group, std::shared_ptr<torch::nn::Module> module,
                   const FSDPConfig& config)
    : group_(group),
      module_(std::move(module)),
      backward_prefetch_(config.backward_prefetch.value().value()),
      forward_prefetch_(config.forward_prefetch),
      dtypes_(dtypes_of(config)) {
  const MeshShape shape = mesh_shape(config, world_size(), local_world_size());
  if (group_ == nullptr) return;
  std::vector<at::Tensor> tensors = module_->parameters();
  for (const at::Tensor& buffer : module_->buffers())
    tensors.push_back(buffer);
  broadcast_tensors(tensors, "sending the model's weights");
  if (shape.shards == 1) return;
  const auto parameters = module_->parameters();
  const at::Device device = parameters.empty() ? at::kCPU : parameters.front().device();
  mesh_ = std::make_unique<ShardMesh>(*group_, shape, device);
  make_units(config);
  give_back_heap();
}

void Sharding::bind() {
  for (std::size_t i = 0; i < wrapped_.size(); ++i) {
    ShardedUnit* const unit = wrapped_[i];
    if (unit == nullptr || units_[i]->parameters().empty()) continue;
    ShardedUnit::Place::set(*unit, {weak_from_this(), i});
  }
}

const ShardUnit::Parameter* Sharding::find(const at::Tensor& parameter) const {
  const auto place = places_.find(parameter.unsafeGetTensorImpl());
  if (place == places_.end()) return nullptr;
  return &units_[place->second.first]->parameters()[place->second.second];
}

// --- A pass --------------------------------------------------------------------------------------

void Sharding::begin() {
  if (std::exchange(is_begun_, true)) {
    throw UsageError("ShardedModule::begin() was called twice: call end() behind the first");
  }
  reset();
  if (mesh_ && !units_[kRoot]->parameters().empty()) bring(kRoot);
}

void Sharding::reset() {
  calls_.clear();
  active_.clear();
  notes_.clear();
  forward_notes_ = std::numeric_limits<std::size_t>::max();  // all, until backward()
  forward_order_.clear();
  sending_.reset();
  error_ = nullptr;
  clock_ = 0;
  depth_ = 0;
  has_sent_.assign(units_.size(), false);
}

void Sharding::end() {
  is_begun_ = false;
  is_backward_ = false;
  forward_notes_ = std::min(forward_notes_, notes_.size());
  calls_.clear();
  active_.clear();
  std::int64_t bytes = 0;
  for (const auto& unit : units_) {
    unit->release();
    bytes += unit->whole_bytes();
  }
  // Gradients of wholes, which autograd makes, and copies that c10d makes come from malloc.
  const bool is_on_host = mesh_ != nullptr && mesh_->row().device.is_cpu();
  if (is_on_host && bytes >= kTrimmedBytes) give_back_heap();
}

void Sharding::ask_for(std::size_t unit) {
  if (units_[unit]->is_whole() || units_[unit]->is_coming()) return;
  notes_.push_back({Done::kGathered, unit});
  units_[unit]->begin_gather();
}

void Sharding::bring(std::size_t unit) {
  ask_for(unit);
  units_[unit]->finish_gather("gathering " + text_of(unit, *units_[unit]));
  std::int64_t whole = 0;
  for (const auto& each : units_)
    whole += each->is_whole() ? each->whole_bytes() : 0;
  peak_whole_bytes_ = std::max(peak_whole_bytes_, whole);
}

std::shared_ptr<Sharding::Call> Sharding::begin_call(std::size_t unit) {
  if (!is_begun_) {
    throw UsageError(
        fmt::format("{} of a sharded module is used outside of a pass, where it is not whole: call "
                    "ShardedModule::begin() before, on all ranks, and end() behind it",
                    text_of(unit, *units_[unit])));
  }
  auto call =
      std::make_shared<Call>(Call{.unit = units_[unit].get(), .index = unit, .begin = ++clock_});
  ask_for(unit);
  bring(unit);
  prefetch_forward(unit);
  forward_order_.push_back(unit);
  calls_.push_back(call);
  ++depth_;
  return call;
}

// The one that came behind this one in the order of the batch before.
void Sharding::prefetch_forward(std::size_t unit) {
  if (!forward_prefetch_) return;
  const std::size_t at = forward_order_.size();
  if (at + 1 < order_.size() && order_[at] == unit) ask_for(order_[at + 1]);
}

void Sharding::end_call(const std::shared_ptr<Call>& call) {
  --depth_;
  call->end = ++clock_;
  const bool is_needed_around = std::ranges::any_of(calls_, [&](const auto& other) {
    return other != call && other->end == 0 && other->unit == call->unit;
  });
  if (mesh_->reshards_after_forward() && !is_needed_around) call->unit->release();
}

void Sharding::add_hook(const at::Tensor& output, const std::shared_ptr<Call>& call) {
  output.register_hook([weak = weak_from_this(), call](const at::Tensor& /*gradient*/) {
    const auto sharding = weak.lock();
    if (sharding == nullptr) throw UsageError("backward() through a module that was sharded");
    try {
      sharding->come_back_to(*call);
    } catch (...) {
      sharding->error_ = std::current_exception();
      throw;
    }
  });
}

// Step 2 and 3, before what computes with the unit.
void Sharding::come_back_to(Call& call) {
  if (!is_backward_) {
    throw UsageError(
        "a sharded module's gradients are the business of ShardedModule::backward(): call that, "
        "between begin() and end(), instead of loss.backward()");
  }
  if (std::exchange(call.is_back, true)) return;
  const torch::NoGradGuard no_grad;
  if (backward_prefetch_ != BackwardPrefetch::kNone) ask_for(call.index);
  finish_units_after(call.end);
  bring(call.index);
  const auto self = std::ranges::find_if(calls_, [&](const auto& c) { return c.get() == &call; });
  active_.push_back(*self);
  if (backward_prefetch_ == BackwardPrefetch::kPre) prefetch_backward(call);
}

void Sharding::prefetch_backward(const Call& call) {
  for (auto before = calls_.rbegin(); before != calls_.rend(); ++before) {
    if ((*before)->begin >= call.begin || (*before)->is_back) continue;
    return ask_for((*before)->index);
  }
}

void Sharding::finish_units_after(std::uint64_t end) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const auto is_of_it = [&](const auto& call) { return call->index == unit; };
    const auto is_later = [&](const auto& call) { return call->begin > end; };
    if (std::ranges::none_of(active_, is_of_it)) continue;
    if (!std::ranges::all_of(active_, [&](const auto& c) { return !is_of_it(c) || is_later(c); })) {
      continue;
    }
    std::erase_if(active_, is_of_it);
    send_gradients(unit);
  }
}

void Sharding::send_gradients(std::size_t unit) {
  finish_sending();
  has_sent_[unit] = true;
  const bool stays = unit == kRoot;
  if (!units_[unit]->has_trainable()) return stays ? void() : units_[unit]->release();
  notes_.push_back({Done::kReduced, unit});
  units_[unit]->begin_reduce({.contributes = contributes_, .stays_whole = stays});
  sending_ = unit;
}

void Sharding::finish_sending() {
  if (!sending_) return;
  const std::size_t unit = *std::exchange(sending_, std::nullopt);
  units_[unit]->finish_reduce("averaging the gradients of " + text_of(unit, *units_[unit]));
}

void Sharding::backward(const at::Tensor& loss, bool contributes) {
  if (!is_begun_) throw UsageError("ShardedModule::backward() belongs between begin() and end()");
  if (!mesh_) {
    loss.backward();
    if (group_ == nullptr) return;
    std::vector<at::Tensor> trainable;
    for (const at::Tensor& parameter : module_->parameters()) {
      const bool is_known = std::ranges::any_of(
          trainable, [&](const at::Tensor& other) { return other.is_same(parameter); });
      if (parameter.requires_grad() && !is_known) trainable.push_back(parameter);
    }
    if (!sync_ || !sync_->is_of(trainable)) {
      sync_ = std::make_unique<GradientSync>(*group_, trainable);
    }
    return sync_->finish("averaging the gradients");
  }
  forward_notes_ = notes_.size();
  std::vector<std::vector<bool>> before;
  for (const auto& unit : units_)
    before.push_back(unit->have_gradients());
  is_backward_ = true;
  contributes_ = contributes;
  try {
    loss.backward();
  } catch (...) {
    is_backward_ = false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    throw;
  }
  is_backward_ = false;
  check_all_went_through_units(before);
  finish_units_after(0);
  if (!units_[kRoot]->parameters().empty()) {
    send_gradients(kRoot);  // it stays: metrics may compute with it, until end()
  }
  finish_sending();
}

// A unit that was used past its wrapper computed with this rank's rows.
void Sharding::check_all_went_through_units(const std::vector<std::vector<bool>>& before) const {
  for (std::size_t unit = 1; unit < units_.size(); ++unit) {
    const bool is_active =
        std::ranges::any_of(active_, [&](const auto& call) { return call->index == unit; });
    if (has_sent_[unit] || is_active || units_[unit]->is_whole()) continue;
    if (units_[unit]->have_gradients() == before[unit]) continue;
    throw UsageError(text_of(unit, *units_[unit]) +
                     " was used without its forward(): a Sharded<> is whole in its forward() only. "
                     "Call that, or do not wrap it");
  }
}

void Sharding::repeat_for_others(bool with_backward) {
  if (!mesh_) return;
  if (notes_.empty()) {
    throw UsageError(
        "a rank has no batch at all where others have one: a sharded module computes on all "
        "ranks together. Give each at least one, or fewer ranks");
  }
  const std::size_t count = with_backward ? notes_.size() : forward_notes_;
  for (const Note& note : std::span(notes_).first(count)) {
    ShardUnit& unit = *units_[note.unit];
    if (note.done == Done::kGathered) {
      unit.gather_for_others("gathering " + text_of(note.unit, unit));
    } else {
      unit.begin_reduce({.contributes = false});
      unit.finish_reduce("averaging the gradients of " + text_of(note.unit, unit));
    }
  }
}

}  // namespace cairn::dist

#include "train/optimizer/optimizer_gatherer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/detail/node_arena.h"

#include "core/pointer_map.h"
#include "train/optimizer/field_visitor.h"
#include "train/optimizer/param_state.h"
#include "train/optimizer/parameter_names.h"
#include "train/optimizer/state_format.h"
#include "train/state/gather/seen_names.h"
#include "train/state/gather/seen_tensors.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

bool is_step(FieldKind kind) { return kind == FieldKind::kStep || kind == FieldKind::kLongStep; }

// The fields of all states, in sequence.
class SeenFields {
 public:
  struct Cursor {
    std::size_t field = 0;
    SeenTensors::Cursor tensor = {};
  };

  // `written`: the Value that StateWriter made from the state that `field` belongs to.
  void add(const FieldVisitor::Field& field, const Value& written) {
    const Value* const value = written.find(field.key);
    Seen seen{.key = key_index(field.key), .kind = field.kind, .number = field.number};
    if (is_step(field.kind)) seen.step = step_memory(*value);
    if (field.kind == FieldKind::kTensor && tensors_.are_live()) tensors_.add(*field.tensor);
    if (field.kind == FieldKind::kOther) has_other_ = true;
    fields_.push_back(seen);
  }
  // Call it if something was written that the fields do not show; for example, a key came twice.
  void note_other() { has_other_ = true; }

  bool can_be_compared() const { return !has_other_ && tensors_.are_live(); }
  bool are_of_this_thread() const { return tensors_.are_of_this_thread(); }
  void note_streams() const { tensors_.note_streams(); }
  std::size_t size() const { return fields_.size(); }

  // Whether `field` equals the next remembered field. A count of steps may differ, as long as its
  // tensor has the same type.
  bool is_next(Cursor& at, const FieldVisitor::Field& field) const {
    if (at.field == fields_.size()) return false;
    const Seen& seen = fields_[at.field++];
    if (seen.kind != field.kind || keys_[seen.key] != field.key) return false;
    if (field.kind == FieldKind::kTensor) return tensors_.is_next(at.tensor, *field.tensor);
    if (!is_step(field.kind)) return seen.number == field.number;
    if (seen.step != nullptr) set_step(seen, static_cast<double>(field.number));
    return true;
  }
  // Call it before the Value that owns the steps' memory is destroyed.
  void forget_steps() {
    for (Seen& seen : fields_)
      seen.step = nullptr;
  }

 private:
  struct Seen {
    std::uint32_t key = 0;  // in keys_
    FieldKind kind = FieldKind::kOther;
    std::int64_t number = 0;
    std::byte* step = nullptr;  // The bytes of this step in the previous Value; null if that Value
                                // is not kept.
  };

  std::uint32_t key_index(std::string_view key) {
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    if (found == keys_.end()) {
      keys_.emplace_back(key);
      return static_cast<std::uint32_t>(keys_.size() - 1);
    }
    return static_cast<std::uint32_t>(found - keys_.begin());
  }

  // The bytes of the tensor that StateWriter made for a number of steps. It has no other owner.
  static std::byte* step_memory(const Value& value) {
    return const_cast<std::byte*>(value.as_tensor().storage->try_view()->view.data());
  }

  static void set_step(const Seen& seen, double step) {
    if (seen.kind == FieldKind::kLongStep) {
      std::memcpy(seen.step, &step, sizeof step);
    } else {
      const auto number = static_cast<float>(step);
      std::memcpy(seen.step, &number, sizeof number);
    }
  }

  std::vector<std::string> keys_;  // Each key once; there are few.
  std::vector<Seen> fields_;
  SeenTensors tensors_;
  bool has_other_ = false;
};

class StateRecorder final : public FieldVisitor {
 public:
  StateRecorder(SeenFields& seen, const Value& written, const LiveState& state)
      : FieldVisitor(state.parameter, state.group.params()), seen_(seen), written_(written) {}
  std::size_t fields() const { return fields_; }

 private:
  void look(const Field& field) override {
    ++fields_;
    seen_.add(field, written_);
  }

  SeenFields& seen_;
  const Value& written_;
  std::size_t fields_ = 0;
};

class Comparing final : public FieldVisitor {
 public:
  Comparing(const SeenFields& seen, SeenFields::Cursor& at, const LiveState& state)
      : FieldVisitor(state.parameter, state.group.params()), seen_(seen), at_(at) {}
  bool is_same() const { return is_same_; }

 private:
  void look(const Field& field) override { is_same_ = is_same_ && seen_.is_next(at_, field); }

  const SeenFields& seen_;
  SeenFields::Cursor& at_;
  bool is_same_ = true;
};

}  // namespace

class OptimizerGatherer::Known {
 public:
  // `made`: what optimizer_state_dict() just returned.
  Known(const torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
        const Value& made)
      : layout_(&layout_of(optimizer)), states_(made.at("state")) {
    for_each_named_parameter(module, [&](const std::string& prefix, const std::string& name,
                                         const at::Tensor& parameter) {
      names_.add(prefix, name);
      named_.push_back(parameter.unsafeGetTensorImpl());
    });
    for (const Value& group : made.at("param_groups").as_items()) {
      names_of_groups_.push_back(group.at("params"));
    }
    remember(optimizer);
  }

  bool can_be_compared() const { return fields_.can_be_compared(); }
  bool is_unchanged(const torch::optim::Optimizer& optimizer,
                    const torch::nn::Module& module) const {
    return layout_ == find_layout(optimizer) && fields_.are_of_this_thread() &&
           has_same_names(module) && has_same_states(optimizer);
  }

  // Releases the Value. Keeps only what is compared.
  void drop_value() {
    states_ = {};
    names_of_groups_.clear();
    fields_.forget_steps();
  }
  bool is_kept() const { return !states_.is_none(); }

  const Value& states() const { return states_; }
  // For each group the list of its parameters' names.
  const std::vector<Value>& names_of_groups() const { return names_of_groups_; }
  void note_streams() const { fields_.note_streams(); }

 private:
  // A parameter as a group lists it.
  struct Listed {
    const void* tensor = nullptr;
    ParamStateKey key = {};
    bool is_first = false;   // Listed for the first time.
    bool has_state = false;  // The state is written where the parameter is listed first.
    std::size_t fields_end = 0;
  };

  // States are written in the order in which their parameters are listed first.
  void remember(const torch::optim::Optimizer& optimizer) {
    PointerMap<bool> listed_before;
    auto written = states_.as_dict().begin();
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const bool is_first = listed_before.try_emplace(parameter.unsafeGetTensorImpl()).second;
        const auto* const state = find_param_state(optimizer, parameter);
        const bool has_state = is_first && state != nullptr;
        if (has_state) remember({*state, parameter, group}, (written++)->second);
        listed_.push_back({.tensor = parameter.unsafeGetTensorImpl(),
                           .key = param_state_key<ParamStateKey>(parameter),
                           .is_first = is_first,
                           .has_state = has_state,
                           .fields_end = fields_.size()});
      }
      group_ends_.push_back(listed_.size());
    }
  }

  void remember(const LiveState& state, const Value& written) {
    StateRecorder look(fields_, written, state);
    visit_state_copy(*layout_, state, look);
    if (look.fields() != written.as_dict().size()) fields_.note_other();
  }

  bool has_same_names(const torch::nn::Module& module) const {
    SeenNames::Cursor at;
    bool is_same = true;
    for_each_named_parameter(module, [&](const std::string& prefix, const std::string& name,
                                         const at::Tensor& parameter) {
      const std::size_t index = at.name;
      is_same = is_same && names_.is_next(at, prefix, name) &&
                named_[index] == parameter.unsafeGetTensorImpl();
    });
    return is_same && names_.is_end(at);
  }

  bool has_same_states(const torch::optim::Optimizer& optimizer) const {
    const auto& groups = optimizer.param_groups();
    if (groups.size() != group_ends_.size()) return false;
    SeenFields::Cursor at;
    auto listed = listed_.begin();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto end = listed_.begin() + static_cast<std::ptrdiff_t>(group_ends_[g]);
      const std::vector<at::Tensor>& parameters = groups[g].params();
      if (parameters.size() != static_cast<std::size_t>(end - listed)) return false;
      for (const at::Tensor& parameter : parameters) {
        if (!is_same(*listed++, {parameter, groups[g]}, optimizer, at)) return false;
      }
    }
    return true;
  }

  struct Place {
    const at::Tensor& parameter;
    const torch::optim::OptimizerParamGroup& group;
  };
  bool is_same(const Listed& before, const Place& place, const torch::optim::Optimizer& optimizer,
               SeenFields::Cursor& at) const {
    if (before.tensor != place.parameter.unsafeGetTensorImpl()) return false;
    if (!before.is_first) return true;
    const auto& states = optimizer.state();
    const auto found = states.find(before.key);
    const auto* const state = found == states.end() ? nullptr : found->second.get();
    if ((state != nullptr) != before.has_state) return false;
    if (state == nullptr) return true;
    const LiveState live{*state, place.parameter, place.group};
    Comparing look(fields_, at, live);
    visit_state_copy(*layout_, live, look);
    return look.is_same() && at.field == before.fields_end;
  }

  const OptimizerLayout* layout_;
  Value states_;
  std::vector<Value> names_of_groups_;
  SeenNames names_;                 // Names of the module's parameters.
  std::vector<const void*> named_;  // The tensors of those names.
  std::vector<Listed> listed_;
  std::vector<std::size_t> group_ends_;  // The end of each group in listed_.
  SeenFields fields_;
};

OptimizerGatherer::OptimizerGatherer() = default;
OptimizerGatherer::~OptimizerGatherer() = default;
OptimizerGatherer::OptimizerGatherer(OptimizerGatherer&&) noexcept = default;
OptimizerGatherer& OptimizerGatherer::operator=(OptimizerGatherer&&) noexcept = default;

Value OptimizerGatherer::gather(const torch::optim::Optimizer& optimizer,
                                const torch::nn::Module& module) {
  const detail::NodeArena arena;
  const bool is_unchanged = known_ != nullptr && known_->is_unchanged(optimizer, module);
  if (is_unchanged && known_->is_kept()) {
    known_->note_streams();
    return optimizer_entries(optimizer, known_->states(), known_->names_of_groups());
  }
  known_.reset();
  Value made = optimizer_state_dict(optimizer, module);
  auto known = std::make_unique<Known>(optimizer, module, made);
  if (!known->can_be_compared()) return made;
  if (!is_unchanged) known->drop_value();
  known_ = std::move(known);
  return made;
}

}  // namespace cairn

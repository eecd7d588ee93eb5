#include "algorithms/ema_migration.h"

#include <fmt/format.h>

#include "cairn/error.h"

namespace cairn {
namespace {

// Returns the tensors of a list as a dict. `names[i]` is the name of item i.
Dict named(const Value* list, const std::vector<std::string>& names, const char* what) {
  const bool fits = list != nullptr && (list->is_list() || list->is_tuple()) &&
                    list->as_items().size() == names.size();
  if (!fits) {
    throw MismatchError(fmt::format(
        "the saved state of EMA is of Composer 0.7 to 0.10.0, which lists {} by position: expected "
        "{} as in this model, found {}",
        what, names.size(),
        list == nullptr || !(list->is_list() || list->is_tuple())
            ? "no list"
            : std::to_string(list->as_items().size())));
  }
  Dict found;
  for (std::size_t i = 0; i < names.size(); ++i)
    found.set(names[i], list->as_items()[i]);
  return found;
}

// The entries with these names. Missing entries are left out; the code that reads the result
// reports them.
Dict part(const Dict& all, const std::vector<std::string>& names) {
  Dict found;
  for (const std::string& name : names) {
    if (const Value* value = all.find(name)) found.set(name, *value);
  }
  return found;
}

Value layout(const Value& state, Dict parameters, Dict buffers) {
  Value present = state;
  present.mutable_dict().erase("training_model");
  present.mutable_dict()["ema_model"] = Dict{{"named_parameters_dict", std::move(parameters)},
                                             {"named_buffers_dict", std::move(buffers)}};
  return present;
}

}  // namespace

Value migrated_ema_state(const Value& state, const EmaNames& names) {
  const Value* average = state.is_dict() ? state.find("ema_model") : nullptr;
  const Value* trained = state.is_dict() ? state.find("training_model") : nullptr;
  if (average == nullptr || trained == nullptr || !average->is_dict() || !trained->is_dict()) {
    return state;
  }
  if (average->find("parameters") != nullptr && state.find("ema_started") == nullptr) {
    const Dict parameters = named(average->find("parameters"), names.parameters, "parameters");
    const Dict buffers = named(average->find("buffers"), names.buffers, "buffers");
    Value present = layout(state, part(parameters, names.trained), buffers);
    present.mutable_dict()["ema_weights_active"] = false;
    present.mutable_dict()["ema_started"] = true;
    present.mutable_dict()["averages_checkpoints"] = false;
    return present;
  }
  const Value* active = state.find("ema_weights_active");
  const bool is_in_model = active != nullptr && *active == Value(true);
  const Dict& other = (is_in_model ? trained : average)->as_dict();
  return layout(state, part(other, names.trained), part(other, names.buffers));
}

}  // namespace cairn

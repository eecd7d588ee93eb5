#include "train/state/load/run_objects.h"

#include <algorithm>

#include "cairn/train/scaler.h"

#include "train/state/gather/entry_names.h"

namespace cairn {

void RunObjectsLoad::load_schedulers() {
  const Dict* entries = findings_.dict_entry(saved_, "schedulers");
  std::vector<std::string> names;
  for (const auto& scheduler : state_.schedulers) {
    names.push_back(scheduler->name());
  }
  names = entry_names(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Value* entry = entries == nullptr ? nullptr : entries->find(names[i]);
    // Composer keeps one entry per class, and gives it to all objects of the class.
    if (entry == nullptr && entries != nullptr) entry = entries->find(state_.schedulers[i]->name());
    if (entry == nullptr) {
      findings_.warn("scheduler " + names[i] + " is not in the checkpoint; it starts afresh");
      continue;
    }
    RunningScheduler& scheduler = *state_.schedulers[i];
    loads_.load("scheduler " + names[i], *entry, scheduler);
  }
}

void RunObjectsLoad::load_algorithms(const std::vector<std::string>& excluded) {
  auto states = algorithm_states(saved_.find("algorithms"));
  if (!states) return findings_.misfit("state/algorithms is not a list of (name, state)");
  StatesByName& by_name = *states;
  for (const std::string& name : excluded) {
    if (by_name.erase(name) > 0) continue;
    findings_.warn("load_exclude_algorithms \"" + name +
                   "\" is not among the checkpoint's algorithms");
  }
  for (const auto& algorithm : state_.algorithms) {
    const std::string who = "algorithm " + algorithm->name();
    if (std::ranges::find(excluded, algorithm->name()) != excluded.end()) {
      findings_.log(who + " starts afresh (load_exclude_algorithms)");
      continue;
    }
    auto& entries = by_name[algorithm->name()];
    if (entries.empty()) {
      findings_.warn(who + " is not in the checkpoint; it starts afresh");
      continue;
    }
    loads_.load(who, *entries.front(),
                ObjectLoads::Object{[algorithm] { return algorithm->state_dict(); },
                                    [&state = state_, algorithm](const Value& value) {
                                      algorithm->load_state_dict(value, state);
                                    }});
    entries.erase(entries.begin());
  }
  for (const auto& [name, entries] : by_name) {
    if (entries.empty()) continue;
    findings_.log("the checkpoint was trained with " + name +
                  ", which this run does not have; its state is not used "
                  "(load_exclude_algorithms silences this)");
  }
}

void RunObjectsLoad::load_callbacks() {
  const Dict* entries = findings_.dict_entry(saved_, "callbacks");
  std::vector<std::string> names;
  for (const auto& callback : state_.callbacks) {
    names.push_back(callback->name());
  }
  names = entry_names(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    Callback& callback = *state_.callbacks[i];
    const Value* entry = entries == nullptr ? nullptr : entries->find(names[i]);
    if (entry == nullptr) {
      const bool is_stateless = callback.state_dict() == Value(Dict());
      if (!is_stateless)
        findings_.warn("callback " + names[i] + " is not in the checkpoint; it starts afresh");
      continue;
    }
    loads_.load("callback " + names[i], *entry, callback);
  }
}

void RunObjectsLoad::load_scaler() {
  const Dict* entries = findings_.dict_entry(saved_, "scaler");
  if (!state_.scaler) return;
  GradScaler& scaler = *state_.scaler;
  const Value* entry = entries == nullptr ? nullptr : entries->find(scaler.name());
  if (entry == nullptr) {
    if (scaler.is_enabled())
      findings_.warn(scaler.name() + " is not in the checkpoint; it starts afresh");
    return;
  }
  loads_.load("scaler", *entry, scaler);
}

}  // namespace cairn

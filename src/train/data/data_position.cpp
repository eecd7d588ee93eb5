#include "train/data/data_position.h"

#include <optional>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/rng.h"

#include "train/state/base_seed.h"

namespace cairn {
namespace {

const Value* find_entry(const State& state, std::string_view key) {
  const Value& saved = state.dataset_state;
  const Value* own = saved.is_dict() ? saved.find("cairn") : nullptr;
  const Value* entry = own != nullptr && own->is_dict() ? own->find(key) : nullptr;
  return entry == nullptr || entry->is_none() ? nullptr : entry;
}

// Sets what later checkpoints hold of the loader; `rng` is of the start of the epoch.
void keep_entries(State& state, const DataLoaderBase& loader, const std::optional<Value>& rng) {
  Dict entries;
  if (rng) entries.set("rng", *rng);
  if (Value options = loader.state_dict(); !options.is_none()) entries.set("loader", options);
  state.dataset_state = entries.empty() ? Value() : Value(Dict{{"cairn", std::move(entries)}});
}

// Of this rank's generator; of several processes a list with those of all.
Value generator_states() {
  if (dist::world_size() == 1) return cpu_rng_state();
  List states;
  for (const Value& state : dist::all_gather_values(cpu_rng_state()))
    states.push_back(state);
  return states;
}

// This rank's; nullptr when the checkpoint was made by fewer.
const Value* own_state(const Value* saved) {
  if (saved == nullptr || !saved->is_list()) return saved;
  const auto rank = static_cast<std::size_t>(dist::rank());
  return rank < saved->as_items().size() ? &saved->as_items()[rank] : nullptr;
}

}  // namespace

void start_epoch(State& state) {
  DataLoaderBase& loader = *state.train_dataloader.dataloader;
  draw_base_seed();
  keep_entries(state, loader,
               loader.uses_global_rng() ? std::optional(generator_states()) : std::nullopt);
  loader.start_epoch(state.timestamp.epoch, 0);
}

void seek_in_epoch(State& state, Logger& logger, const std::optional<Value>& rng) {
  DataLoaderBase& loader = *state.train_dataloader.dataloader;
  const Value after = rng ? *rng : rng_states();
  std::optional<Value> at_start;
  if (loader.uses_global_rng()) {
    const Value* saved = find_entry(state, "rng");
    if (const Value* own = own_state(saved)) {
      at_start = *saved;
      set_cpu_rng_state(*own);
    } else {
      logger.log_message(
          "warning: the order of the data comes from the global random generator, whose state at "
          "the start of the epoch is not in the checkpoint: the rest of this epoch has other "
          "samples than it would have had");
    }
  }
  keep_entries(state, loader, at_start);
  loader.start_epoch(state.timestamp.epoch, state.timestamp.batch_in_epoch);
  restore_rng_states(after);
}

void check_loader(State& state, Logger& logger) {
  const Value* saved = find_entry(state, "loader");
  if (saved == nullptr) return;
  try {
    state.train_dataloader.dataloader->load_state_dict(*saved);
  } catch (MismatchError& error) {
    if (state.timestamp.batch_in_epoch == 0) {
      logger.log_message(std::string("warning: ") + error.what());
      return;
    }
    error.add_context(
        "resuming inside an epoch (use the same loader, a checkpoint from the end of an epoch, or "
        "load_ignore_keys = {\"state/dataset_state*\"})");
    throw;
  }
}

}  // namespace cairn

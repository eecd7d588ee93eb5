#include "train/data_position.h"

#include "cairn/error.h"
#include "cairn/train/rng.h"

#include "train/base_seed.h"

namespace cairn {
namespace {

const Value* find_entry(const State& state, std::string_view key) {
  const Value& saved = state.dataset_state;
  const Value* own = saved.is_dict() ? saved.find("cairn") : nullptr;
  const Value* entry = own != nullptr && own->is_dict() ? own->find(key) : nullptr;
  return entry == nullptr || entry->is_none() ? nullptr : entry;
}

}  // namespace

void start_epoch(State& state) {
  DataLoaderBase& loader = *state.train_dataloader.dataloader;
  draw_base_seed();
  Dict entries;
  if (loader.uses_global_rng()) entries.set("rng", cpu_rng_state());
  if (Value options = loader.state_dict(); !options.is_none()) entries.set("loader", options);
  state.dataset_state = entries.empty() ? Value() : Value(Dict{{"cairn", std::move(entries)}});
  loader.start_epoch(state.timestamp.epoch, 0);
}

void seek_in_epoch(State& state, Logger& logger, const std::optional<Value>& rng) {
  DataLoaderBase& loader = *state.train_dataloader.dataloader;
  const Value after = rng ? *rng : rng_states();
  if (loader.uses_global_rng()) {
    if (const Value* at_start = find_entry(state, "rng")) {
      set_cpu_rng_state(*at_start);
    } else {
      logger.log_message(
          "warning: the order of the data comes from the global random generator, whose state at "
          "the start of the epoch is not in the checkpoint: the rest of this epoch has other "
          "samples than it would have had");
    }
  }
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

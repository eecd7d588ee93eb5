#include "train/data/data_position.h"

#include <algorithm>
#include <optional>
#include <string>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/rng.h"

#include "dist/team.h"
#include "train/state/load/load_advice.h"
#include "train/state/random/base_seed.h"

namespace cairn {
namespace {

const Value* find_entry(const State& state, std::string_view key) {
  const Value& saved = state.dataset_state;
  const Value* own = saved.is_dict() ? saved.find("cairn") : nullptr;
  const Value* entry = own != nullptr && own->is_dict() ? own->find(key) : nullptr;
  return entry == nullptr || entry->is_none() ? nullptr : entry;
}

// The seed of step 7.
std::int64_t loader_seed(const State& state) {
  const Value* kept = find_entry(state, "seed");
  if (kept != nullptr && kept->is_int()) return kept->as_int();
  return state.timestamp.batch == 0 ? state.rank_zero_seed : 0;
}

// The last point in an epoch at which its samples were dealt to ranks.
struct DealPoint {
  std::int64_t batch = 0;    // Number in the epoch.
  std::int64_t samples = 0;  // Samples that all ranks together had before it.
};

// Sets what later checkpoints hold about the loader. `rng` is the generator's state from the start
// of the epoch.
void keep_entries(State& state, const DataLoaderBase& loader, const std::optional<Value>& rng,
                  const std::optional<DealPoint>& dealt = std::nullopt) {
  Dict entries = {{"seed", loader_seed(state)}};
  if (rng) entries.set("rng", *rng);
  if (Value options = loader.state_dict(); !options.is_none()) entries.set("loader", options);
  if (dealt) {
    entries.set("dealt", Dict{{"batch", dealt->batch}, {"samples", dealt->samples}});
  }
  state.dataset_state = Dict{{"cairn", std::move(entries)}};
}

// The state of this rank's generator; in a job of several processes, a list of all ranks' states.
Value generator_states() {
  if (dist::world_size() == 1) return cpu_rng_state();
  List states;
  for (const Value& state : Team::of_job().gather_all(cpu_rng_state()))
    states.push_back(state);
  return states;
}

// This rank's state in `saved`; nullptr if fewer ranks made the checkpoint.
const Value* own_state(const Value* saved) {
  if (saved == nullptr || !saved->is_list()) return saved;
  const auto rank = static_cast<std::size_t>(dist::rank());
  return rank < saved->as_items().size() ? &saved->as_items()[rank] : nullptr;
}

std::optional<DealPoint> find_dealt(const State& state) {
  const Value* saved = find_entry(state, "dealt");
  if (saved == nullptr || !saved->is_dict()) return std::nullopt;
  const Value* batch = saved->find("batch");
  const Value* samples = saved->find("samples");
  if (batch == nullptr || samples == nullptr || !batch->is_int() || !samples->is_int()) {
    return std::nullopt;
  }
  return DealPoint{batch->as_int(), samples->as_int()};
}

// Step 5: the point from which the loader deals the rest of the epoch anew; nullopt if it can
// simply seek.
std::optional<DealPoint> find_deal(const State& state, std::int64_t batch) {
  const DataLoaderBase& loader = *state.train_dataloader.dataloader;
  const Value* saved = find_entry(state, "loader");
  if (saved == nullptr) return std::nullopt;
  const auto before = find_dealt(state);
  if (!before && *saved == loader.state_dict()) return std::nullopt;
  const DealPoint from = before.value_or(DealPoint());
  const auto had = loader.samples_after(*saved, from.samples, batch - from.batch);
  if (!had) return std::nullopt;
  return DealPoint{batch, *had};
}

// Limits the `rest` batches of the epoch to the batches that train_subset_num_batches leaves.
std::int64_t batches_of_subset(const State& state, std::int64_t samples_had, std::int64_t rest) {
  const DataLoaderBase& loader = *state.train_dataloader.dataloader;
  const auto all = loader.num_batches();
  const auto size = loader.batch_size();
  if (!state.dataloader_len || !all || !size || *state.dataloader_len >= *all) return rest;
  const std::int64_t batch = *size * dist::world_size();
  const std::int64_t left = *state.dataloader_len * batch - samples_had;
  return std::clamp<std::int64_t>((left + batch - 1) / batch, 0, rest);
}

}  // namespace

void seed_loader(const State& state, DataLoaderBase& loader) {
  loader.set_default_seed(loader_seed(state));
}

void start_epoch(State& state) {
  DataLoaderBase& loader = *state.train_dataloader.dataloader;
  draw_base_seed();
  keep_entries(state, loader,
               loader.uses_global_rng() ? std::optional(generator_states()) : std::nullopt);
  loader.start_epoch(state.timestamp.epoch, 0);
}

std::optional<std::int64_t> seek_in_epoch(State& state, Logger& logger, std::int64_t batch,
                                          const std::optional<Value>& rng) {
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
          "the start of the epoch is not in the checkpoint. The rest of this epoch differs from a "
          "run without the restart");
    }
  }
  const auto deal = find_deal(state, batch);
  const std::int64_t epoch = state.timestamp.epoch;
  keep_entries(state, loader, at_start, deal);
  std::optional<std::int64_t> length;
  if (deal) {
    const std::int64_t rest = loader.continue_epoch(epoch, deal->samples);
    length = batch + batches_of_subset(state, deal->samples, rest);
  } else {
    loader.start_epoch(epoch, batch);
  }
  restore_rng_states(after);
  return length;
}

void check_loader(State& state, Logger& logger, const std::string& resumed_from) {
  const Value* saved = find_entry(state, "loader");
  if (saved == nullptr) return;
  if (state.timestamp.batch_in_epoch > 0) {
    if (const auto deal = find_deal(state, state.timestamp.batch_in_epoch)) {
      logger.log_message("inside epoch " + std::to_string(state.timestamp.epoch) + ", after " +
                         std::to_string(deal->samples) +
                         " of its samples: the others are dealt to " +
                         std::to_string(dist::world_size()) +
                         (dist::world_size() == 1 ? " process" : " processes"));
      return;
    }
  }
  try {
    state.train_dataloader.dataloader->load_state_dict(*saved);
  } catch (MismatchError& error) {
    if (state.timestamp.batch_in_epoch == 0) {
      logger.log_message(std::string("warning: ") + error.what());
      return;
    }
    const std::string keys = "load_ignore_keys = {\"state/dataset_state*\"}";
    error.add_context("resuming inside an epoch (use the same loader, or " +
                      (resumed_from.empty()
                           ? "a checkpoint from the end of an epoch, or " + keys
                           : one_start_without_autoresume(resumed_from) + ", " + keys) +
                      ")");
    throw;
  }
}

}  // namespace cairn

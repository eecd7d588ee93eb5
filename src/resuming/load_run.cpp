#include "resuming/load_run.h"

#include <iostream>
#include <utility>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/dist/dist.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/source.h"
#include "core/text/printable.h"
#include "dist/team.h"
#include "io/read_fault.h"
#include "saving/check_savers.h"
#include "storage/retrying_store.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/load/load_job.h"

namespace cairn {

RankError TriedLoad::error_of_rank(const std::string& path) const {
  return RankError("rank " + std::to_string(agreed.rank) + " cannot load " + printable_line(path) +
                   ", from which all ranks go on: " + agreed.outcome.why);
}

bool is_fault_of_file(const Error& error) {
  const bool is_of_program = dynamic_cast<const MismatchError*>(&error) != nullptr ||
                             dynamic_cast<const UsageError*>(&error) != nullptr;
  return !is_of_program && read_fault_of(error) != ReadFault::kNow;
}

AgreedOutcome agree_on_outcome(const RankOutcome& own) {
  const auto all = Team::of_job().gather_all(List{static_cast<std::int64_t>(own.kind), own.why});
  AgreedOutcome agreed;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto kind = static_cast<RankOutcome::Kind>(all[rank].as_items().at(0).as_int());
    agreed.is_ok_anywhere = agreed.is_ok_anywhere || kind == RankOutcome::kOk;
    if (kind <= agreed.outcome.kind) continue;
    agreed.outcome = {kind, all[rank].as_items().at(1).as_str()};
    agreed.rank = static_cast<std::int64_t>(rank);
  }
  return agreed;
}

TriedLoad load_together(const std::function<LoadOutcome()>& load, const std::string& where) {
  TriedLoad tried;
  try {
    tried.outcome = load();
  } catch (const dist::DistError&) {
    throw;  // The other ranks can no longer be told.
  } catch (const std::exception& e) {
    const auto* const error = dynamic_cast<const Error*>(&e);
    const bool is_bad_file = error != nullptr && is_fault_of_file(*error);
    tried.own = {is_bad_file ? RankOutcome::kBadFile : RankOutcome::kFailed, where + e.what()};
    tried.error = std::current_exception();
  }
  tried.agreed = agree_on_outcome(tried.own);
  return tried;
}

std::string position_text(const Timestamp& timestamp) {
  return "epoch " + std::to_string(timestamp.epoch) + ", batch " + std::to_string(timestamp.batch);
}

LoadOutcome load_for_run(const LoadJob& job, const LoadJob& nearest, State& state,
                         LoadProgress& progress, Logger& logger) {
  const dist::LongWork long_work;
  const std::string run_name = state.run_name;
  LoadOutcome outcome{.is_loaded = true};
  if (job.joint != nullptr) outcome.path_of_parts = job.path;
  {
    const auto bar = progress.show(job.path);
    outcome.rng = load_now(nearest, state, logger);
  }
  // A run that starts from another run's checkpoint must not touch that run's files.
  if (std::exchange(state.run_name, run_name) != run_name) {
    for (CheckpointSaver* saver : savers_among(state.callbacks)) {
      saver->load_state_dict(Dict());
    }
  }
  logger.log_message(
      "loaded " + printable_line(job.path) +
      (job.options.load_weights_only ? " (weights)" : ": " + position_text(state.timestamp)));
  return outcome;
}

NodeCopy copy_for_node(const LoadJob& job, const State& state, LoadProgress& progress,
                       Logger& logger) {
  const auto bar = progress.show(job.path);
  return {job, is_sharded(state), logger};
}

LoadProgress progress_of(const TrainerOptions& options) {
  return LoadProgress(
      {.is_shown = options.load_progress_bar,
       .chunk_bytes = options.load_chunk_size.value_or(0),
       .stream = options.console_stream == ConsoleStream::kStdout ? &std::cout : &std::cerr});
}

std::shared_ptr<ObjectStore> patient_store(std::shared_ptr<ObjectStore> store,
                                           const StorePatience& patience, Logger& logger) {
  if (!store->may_be_far()) return store;
  return retrying_store(std::move(store),
                        {.patience = patience.time,
                         .patience_option = patience.option,
                         .on_retry = told_by_lines(
                             [&logger](const std::string& line) { logger.log_message(line); })});
}

std::string content_of(const LoadJob& job) {
  return job.checkpoint ? Checkpoint::Impl::source_of(*job.checkpoint).content() : "";
}

std::optional<Value> rng_of_rank(std::optional<Value> states) {
  if (!states || dist::world_size() == 1) return states;
  const auto rank = static_cast<std::size_t>(dist::rank());
  if (rank >= states->as_items().size()) return std::nullopt;
  return Value(List{states->as_items()[rank]});
}

}  // namespace cairn

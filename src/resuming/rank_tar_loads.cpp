#include "resuming/rank_tar_loads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <tuple>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "checkpoint/folder/search.h"
#include "checkpoint/names/format_string.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/training_info.h"
#include "checkpoint/plan/rank_tar.h"
#include "core/text/few_lines.h"
#include "core/text/printable.h"
#include "dist/team.h"
#include "resuming/load_path.h"
#include "resuming/load_progress.h"
#include "storage/place.h"
#include "train/state/gather/rank_saves.h"
#include "train/state/load/load_job.h"

namespace cairn {
namespace {

constexpr const char* kMend =
    "; or unpack the tars of all ranks of one save into a folder, convert it with `cairn convert "
    "--rename module.=`, and begin with the weights (load_state_dict())";

// The tar of one rank, as it was found.
struct Found {
  SeenTar seen = {};
  std::optional<Checkpoint> checkpoint = std::nullopt;
};

std::int64_t parsed_number(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Describes the tar of a rank. nullopt: the checkpoint is not a rank's tar.
std::optional<SeenTar> seen_of(const Checkpoint& checkpoint) {
  const SourceInfo info = Checkpoint::Impl::source_of(checkpoint).info();
  if (info.format != "deepspeed_rank") return std::nullopt;
  SeenTar seen{.is_there = true, .path = checkpoint.path()};
  for (const auto& [key, value] : info.notes) {
    if (key == "save") seen.attempt = value;
    if (key == "rank") seen.rank = parsed_number(value);
    if (key == "ranks") seen.world_size = parsed_number(value);
  }
  const auto timestamp = info.checkpoint ? info.checkpoint->timestamp : std::nullopt;
  std::apply([&](const auto&... counters) { (seen.position.push_back(counters), ...); },
             position(timestamp.value_or(Timestamp())));
  return seen;
}

Value packed(const SeenTar& seen) {
  List counters;
  for (const std::int64_t counter : seen.position)
    counters.emplace_back(counter);
  return List{seen.is_there, seen.attempt,    std::move(counters),
              seen.rank,     seen.world_size, seen.path};
}

SeenTar unpacked(const Value& said) {
  const List& items = said.as_items();
  SeenTar seen{.is_there = items.at(0).as_bool(),
               .attempt = items.at(1).as_str(),
               .rank = items.at(3).as_int(),
               .world_size = items.at(4).as_int(),
               .path = items.at(5).as_str()};
  for (const Value& counter : items.at(2).as_items())
    seen.position.push_back(counter.as_int());
  return seen;
}

// Step 2. `look` sets this rank's `found`. Returns what each rank has, by rank. Throws on all ranks
// if one of them failed.
std::vector<SeenTar> look_together(const std::function<void()>& look, const Found& found) {
  const Team team = Team::of_job();
  const auto said = team.gather_results("looking for its tar", [&] {
    try {
      look();
    } catch (const NotFoundError& e) {
      throw NotFoundError(
          fmt::format("Deepspeed checkpoint missing for rank {}: {}", team.rank(), e.what()));
    }
    return packed(found.seen);
  });
  std::vector<SeenTar> seen;
  for (const Value& of_rank : said)
    seen.push_back(unpacked(of_rank));
  return seen;
}

// Step 4, on all ranks. nullopt: the tar of a rank proved bad.
std::optional<LoadOutcome> load_tar(const LoadJob& job, State& state, Logger& logger) {
  LoadProgress progress({.is_shown = false});
  TriedLoad tried = load_together([&] { return load_for_run(job, job, state, progress, logger); },
                                  job.path + ": ");
  if (tried.own.kind == RankOutcome::kFailed) std::rethrow_exception(tried.error);
  if (!tried.is_ok()) {
    const std::string why =
        fmt::format("rank {} cannot load its part of the checkpoint that all ranks go on from: {}",
                    tried.agreed.rank, tried.agreed.outcome.why);
    if (tried.agreed.outcome.kind == RankOutcome::kFailed) throw RankError(why);
    logger.log_message("warning: passed over the tars of a save: " + printable_line(why));
    return std::nullopt;
  }
  // The states of generators are listed by rank, and each tar has only its own rank's.
  auto& rng = tried.outcome.rng;
  if (rng && rng->is_list() && !rng->as_items().empty()) {
    const Value own = rng->as_items().front();
    rng = Value(List(static_cast<std::size_t>(dist::world_size()), own));
  }
  return tried.outcome;
}

class TarAutoresume {
 public:
  TarAutoresume(const TrainerOptions& options, State& state, const CheckpointSaver& saver,
                Logger& logger)
      : options_(options),
        state_(state),
        saver_(saver.options()),
        logger_(logger),
        folder_(strict_format(NameFormat(saver_.folder), dist_variables(state.run_name))) {}

  LoadOutcome run() {
    for (;;) {
      FewLines skipped;
      Found found;
      const std::vector<SeenTar> seen = look_together([&] { look(found, skipped); }, found);
      if (skipped.left_out() > 0) {
        logger_.log_message(
            fmt::format("warning: autoresume skipped {} more in {}", skipped.left_out(), folder_));
      }
      const TarChoice choice = choose_tars(seen, went_back_);
      const auto rank = static_cast<std::size_t>(dist::rank());
      if (choice.kind == TarChoice::kNone) {
        refuse_to_begin_again();
        logger_.log_message("autoresume: no checkpoint in " + folder_ +
                            (options_.load_path ? "; loading load_path" : "; starting afresh"));
        return load_from_load_path(options_, state_, logger_);
      }
      if (choice.kind == TarChoice::kGoBack) {
        went_back_ = true;
        if (!choice.goes_back.at(rank)) continue;
        logger_.log_message("warning: autoresume passed over " + printable_line(found.seen.path) +
                            ": not every rank has its file of that save");
        except_.push_back(found.seen.path);
        continue;
      }
      logger_.log_message("autoresume: going on from " + printable_line(found.seen.path));
      const LoadJob job{.path = found.seen.path,
                        .checkpoint = found.checkpoint,
                        .options = {.strict_model_weights = options_.load_strict_model_weights,
                                    .store = saver_.store}};
      if (auto outcome = load_tar(job, state_, logger_)) {
        outcome->resumed_from = found.seen.path;
        return *outcome;
      }
      any_bad_ = true;
      except_.push_back(found.seen.path);
    }
  }

 private:
  // Step 1.
  void look(Found& found, FewLines& skipped) {
    SearchOptions search{.only_run_states = true};
    FindOptions& find = search.find;
    find.filename = NameFormat(saver_.filename);
    find.run_name = state_.run_name;
    find.latest_filename = NameFormat(saver_.latest_filename.value_or(""));
    find.verify = Verify::kQuick;
    find.store = saver_.store;
    find.on_skip = [&](const std::string& path, const std::string& why) {
      if (!skipped.take()) return;
      logger_.log_message("warning: autoresume skipped " + printable_line(path) + ": " +
                          without_path(why, printable_line(path)));
    };
    std::string other;
    find.on_other_run = [&](const std::string& path, const std::string& whose) {
      other = path + " of the run \"" + printable_line(whose) + "\"";
    };
    for (;;) {
      find.except = except_;
      auto newest = search_folder(folder_, search);
      if (!newest) break;
      const auto seen = seen_of(newest->checkpoint);
      if (seen) {
        found.seen = *seen;
        found.checkpoint = newest->checkpoint;
        return;
      }
      find.on_skip(newest->path, "it is not a rank's tar, as this run saves them");
      except_.push_back(newest->path);
    }
    if (other.empty()) return;
    throw UsageError("autoresume: " + folder_ + " has no checkpoint of the run \"" +
                     state_.run_name + "\", but " + other +
                     ", a name that this run would write, too. Set run_name to that run's, or give "
                     "this one a folder of its own");
  }

  void refuse_to_begin_again() const {
    if (!any_bad_) return;
    throw CorruptError("autoresume: every save in " + folder_ +
                           " has a rank's tar that cannot be loaded (see the warnings above). Put "
                           "the tars aside to begin anew",
                       folder_, 0);
  }

  const TrainerOptions& options_;
  State& state_;
  const CheckpointSaverOptions& saver_;
  Logger& logger_;
  const std::string folder_;
  std::vector<std::string> except_;
  bool went_back_ = false;
  bool any_bad_ = false;
};

}  // namespace

TarChoice choose_tars(const std::vector<SeenTar>& seen, bool went_back) {
  std::vector<std::size_t> missing;
  const SeenTar* any = nullptr;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (!seen[rank].is_there) missing.push_back(rank);
    if (any == nullptr && seen[rank].is_there) any = &seen[rank];
  }
  if (any == nullptr && !went_back) return {};
  if (any == nullptr || !missing.empty()) {
    std::string text = fmt::format("Deepspeed was enabled, but checkpoints missing on ranks: [{}]",
                                   fmt::join(missing, ", "));
    if (went_back) text += ". There is no save of which every rank has its tar";
    if (any != nullptr) {
      text += fmt::format(
          ". Other ranks have theirs, for example {}, saved by {} ranks; this job has {}",
          any->path, any->world_size, seen.size());
    }
    throw UsageError(text +
                     ". Put the missing files into the folders of those ranks, or the others aside "
                     "to begin anew" +
                     kMend);
  }
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    const SeenTar& own = seen[rank];
    if (own.world_size != static_cast<std::int64_t>(seen.size())) {
      throw MismatchError(
          fmt::format("{} was saved by {} ranks, and this job has {}: start it with {}{}", own.path,
                      own.world_size, seen.size(), own.world_size, kMend));
    }
    if (own.rank != static_cast<std::int64_t>(rank)) {
      throw UsageError(
          fmt::format("{} is rank {}'s, but rank {} loads it. Put {{rank}} into the path, so that "
                      "each rank loads its own tar",
                      own.path, own.rank, rank));
    }
  }
  TarChoice choice{.kind = TarChoice::kAll, .goes_back = std::vector<bool>(seen.size())};
  const auto least = std::ranges::min_element(seen, {}, &SeenTar::position);
  const bool is_one_save = std::ranges::all_of(
      seen, [&](const SeenTar& own) { return own.attempt == seen.front().attempt; });
  if (is_one_save) return choice;
  choice.kind = TarChoice::kGoBack;
  const bool is_one_position = std::ranges::all_of(
      seen, [&](const SeenTar& own) { return own.position == least->position; });
  for (std::size_t rank = 0; rank < seen.size(); ++rank)
    choice.goes_back[rank] = is_one_position || seen[rank].position != least->position;
  return choice;
}

bool loads_rank_tars(const TrainerOptions& options, const State& state) {
  if (!saves_rank_tars(state) || !options.load_path) return false;
  const auto pieces = split_format(NameFormat(*options.load_path));
  return std::ranges::any_of(
      pieces, [](const FormatPiece& piece) { return piece.is_field && piece.name == "rank"; });
}

LoadOutcome load_rank_tars(const TrainerOptions& options, State& state, Logger& logger) {
  LoadProgress progress({.is_shown = false, .chunk_bytes = options.load_chunk_size.value_or(0)});
  std::shared_ptr<ObjectStore> store;
  Found found;
  const auto look = [&] {
    const std::string path =
        strict_format(NameFormat(*options.load_path), dist_variables(state.run_name));
    if (!is_tar_name(path)) {
      throw UsageError("load_path " + path +
                       ": Deepspeed checkpoints require a tarball, not a weights file. To load a "
                       "file of the whole state, give a load_path without {rank}");
    }
    store = progress.watch(store_of(path, options.load_object_store));
    found.checkpoint = open_checkpoint(options.load_object_store ? path : shown_place(path), store);
    const auto seen = seen_of(*found.checkpoint);
    if (!seen) {
      throw UnsupportedError(
          "Failed to load DeepSpeed checkpoint " + path +
          ": it is not a rank's tar, as saves with deepspeed_config write. To "
          "load a checkpoint of the whole state, give a load_path without {rank}");
    }
    found.seen = *seen;
  };
  const TarChoice choice = choose_tars(look_together(look, found), /*went_back=*/false);
  if (choice.kind == TarChoice::kGoBack) {
    throw MismatchError(
        "Failed to load DeepSpeed checkpoint: the ranks' tars are of different saves; " +
        found.seen.path + " of rank " + std::to_string(dist::rank()) + " is of the save " +
        found.seen.attempt + ". Set load_path to the tars of one save");
  }
  const LoadJob job{.path = found.seen.path,
                    .checkpoint = found.checkpoint,
                    .options = {.load_weights_only = options.load_weights_only,
                                .strict_model_weights = options.load_strict_model_weights,
                                .ignore_keys = options.load_ignore_keys,
                                .exclude_algorithms = options.load_exclude_algorithms,
                                .store = store}};
  if (const auto outcome = load_tar(job, state, logger)) return *outcome;
  throw CorruptError("Failed to load DeepSpeed checkpoint " + found.seen.path +
                         ": the tar of some rank is damaged (see the warning above)",
                     found.seen.path, 0);
}

LoadOutcome resume_rank_tars(const TrainerOptions& options, State& state,
                             const CheckpointSaver& saver, Logger& logger) {
  return TarAutoresume(options, state, saver, logger).run();
}

}  // namespace cairn

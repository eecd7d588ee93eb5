#include "resuming/load_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "checkpoint/names/launch.h"
#include "checkpoint/open/checkpoint.h"
#include "core/text/printable.h"
#include "dist/team.h"
#include "io/file.h"
#include "resuming/joint_checkpoints.h"
#include "resuming/rank_tar_loads.h"
#include "storage/local/links.h"
#include "storage/place.h"
#include "train/state/load/load_job.h"

namespace cairn {
namespace {

// Follows a pointer at `path` on rank 0, for all ranks: a run that still saves moves its `latest`
// while the ranks open it. The target is named relative to the folder, whose path may differ
// between ranks. Returns `path` if there is no pointer, or if it leads out of the folder.
std::string follow_pointer_for_all(const std::string& path, ObjectStore& store) {
  const Team team = Team::of_job();
  if (team.is_alone()) return path;
  const std::string name =
      team.do_on_first("opening " + path,
                       [&]() -> Value {
                         try {
                           // Users may pass the pointer's file itself, too.
                           const bool is_file = path.ends_with(kLinkFile);
                           const auto pointer = store.read_pointer(
                               is_file ? path.substr(0, path.size() - kLinkFile.size()) : path);
                           if (!pointer || pointer->is_broken()) return "";
                           return relative_path(normal_path(pointer->target),
                                                normal_path(parent_path(path)));
                         } catch (const std::exception&) {
                           return "";  // Opening the path reports the problem to all ranks.
                         }
                       })
          .as_str();
  if (name.empty() || name.starts_with("..")) return path;
  return path.find('/') == std::string::npos ? name : join_path(parent_path(path), name);
}

// Rank 0 opens the checkpoint at load_path, and the other ranks must find the same content at their
// load_path. (Meanwhile the name may have got another file, or on another machine the path may lead
// to another file.) Throws on all ranks if rank 0 cannot open it: the other ranks would have
// nothing to compare with.
void open_for_all(LoadJob& job) {
  const Team team = Team::of_job();
  if (team.is_alone()) return;
  const Value content = team.do_on_first("opening " + printable_line(job.path), [&]() -> Value {
    job.checkpoint = open_checkpoint(job.path, job.options.store);
    return content_of(job);
  });
  job.content = content.as_str();
}

LoadJob job_of(const TrainerOptions& options, const State& state, LoadProgress& progress,
               Logger& logger) {
  const std::string path =
      strict_format(NameFormat(*options.load_path), variables_of_writer(state.run_name));
  const auto store = patient_store(progress.watch(store_of(path, options.load_object_store)),
                                   {options.save_store_patience, "save_store_patience"}, logger);
  // If only weights are wanted, three times as much optimizer state is not worth its transfer.
  const bool is_dear = options.load_weights_only && store->may_be_far();
  LoadJob job = {.path = options.load_object_store ? path : shown_place(path),
                 .options = {.load_weights_only = options.load_weights_only,
                             .strict_model_weights = options.load_strict_model_weights,
                             .ignore_keys = options.load_ignore_keys,
                             .exclude_algorithms = options.load_exclude_algorithms,
                             .verify = is_dear ? Verify::kWhatIsRead : Verify::kFull,
                             .store = store,
                             .in_place = options.load_in_place}};
  job.path = follow_pointer_for_all(job.path, *store);
  return job;
}

}  // namespace

LoadOutcome load_from_load_path(const TrainerOptions& options, State& state, Logger& logger) {
  if (!options.load_path) return {};
  if (loads_rank_tars(options, state)) return load_rank_tars(options, state, logger);
  LoadProgress progress = progress_of(options);
  LoadJob job = job_of(options, state, progress, logger);
  std::unique_ptr<JointCheckpoints> joint;  // Must live until all ranks have loaded.
  if (JointCheckpoints::is_needed(*job.options.store)) {
    joint = JointCheckpoints::of_path(job.path, job.options.store);
    // If no machine has the checkpoint, the load gives the best error.
    if (joint->store()->stat(joint->path(), /*follow=*/true)) {
      job.path = joint->path();
      job.options.store = joint->store();
      job.joint = joint->store();
    }
  }
  open_for_all(job);
  const NodeCopy copy = copy_for_node(job, state, progress, logger);
  const TriedLoad tried =
      load_together([&] { return load_for_run(job, copy.nearest(), state, progress, logger); });
  if (tried.error) std::rethrow_exception(tried.error);
  if (!tried.is_ok()) throw tried.error_of_rank(job.path);
  return tried.outcome;
}

void log_unused_options(const TrainerOptions& options, const LoadOutcome& outcome, Logger& logger) {
  const bool is_resumed = !outcome.resumed_from.empty();
  if (!is_resumed && options.load_path) return;
  std::vector<std::string_view> set;
  if (options.load_weights_only) set.emplace_back("load_weights_only");
  if (!options.load_ignore_keys.empty()) set.emplace_back("load_ignore_keys");
  if (!options.load_exclude_algorithms.empty()) set.emplace_back("load_exclude_algorithms");
  if (set.empty()) return;
  logger.log_message(fmt::format(
      "{} (of load_path) not used: {}", fmt::join(set, ", "),
      is_resumed ? "autoresume takes the run's own checkpoint whole" : "there is no load_path"));
}

}  // namespace cairn

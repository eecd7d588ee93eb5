#include "saving/saver_start.h"

#include <cerrno>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "checkpoint/folder/leftovers.h"
#include "checkpoint/names/format_string.h"
#include "core/text/printable.h"
#include "core/text/size_text.h"
#include "io/file.h"
#include "saving/checkpoint_size.h"
#include "saving/layout.h"
#include "saving/saver_options.h"
#include "saving/saver_uploads.h"
#include "storage/local/local_store.h"
#include "train/loop/fit_loop.h"

namespace cairn {

bool is_after_last_batch(const State& state) {
  if (is_training_over(state)) return true;
  const auto& max = state.max_duration;
  const Timestamp& now = state.timestamp;
  const bool ends_epoch = state.dataloader_len && now.batch_in_epoch >= *state.dataloader_len;
  return max && ends_epoch && max->unit() == TimeUnit::kEpoch &&
         Time(now.epoch + 1, max->unit()) >= *max;
}

void try_names(const CheckpointSaverOptions& options, const State& state) {
  ObjectStore& store = *options.store;
  const std::string home = save_folder(options, state);
  for (const std::string& name : {save_path(options, state), link_path(options, state)}) {
    if (name.empty()) continue;
    store.stat(name, /*follow=*/false);
    std::string where = parent_path(name);
    while (where.size() > home.size() && !store.stat(where, /*follow=*/false))
      where = parent_path(where);
    if (where.size() > home.size()) store.begin(join_path(where, "probe"));
  }
}

void remove_leftovers(const CheckpointSaverOptions& options, const std::string& folder,
                      const FormatVariables& variables, Logger& logger) {
  std::vector<NameFormat> formats = {NameFormat(options.filename)};
  if (options.latest_filename) formats.emplace_back(*options.latest_filename);
  for (const std::string& name :
       remove_leftovers_of_formats(*options.store, folder, formats, variables)) {
    logger.log_message("removed " + printable_line(join_path(folder, name)) +
                       ", left by a save that was killed");
  }
}

void look_at_uploads(const CheckpointSaverOptions& options, const State& state,
                     const Logger& logger) {
  const FormatVariables dist = dist_variables(state.run_name);
  const NameFormat latest(options.latest_remote_file_name.value_or(""));
  SaverUploads::look(partial_format(NameFormat(*options.remote_file_name), dist),
                     partial_format(latest, dist), logger);
}

void check_room(const CheckpointSaverOptions& options, const CheckpointLayout& layout,
                const State& state) {
  const LocalFiles* const local = local_files_of(*options.store);
  if (local == nullptr || !layout.has_known_size(options) || !options.ignore_keys.empty()) return;
  const bool has_parts = layout.is_first_of_another_machine();
  if (is_after_last_batch(state) || !(layout.is_writer() || has_parts)) return;
  const std::string where =
      has_parts ? writers_folder(options, state) : save_folder(options, state);
  const auto room = local->files().free_bytes(where);
  const std::uint64_t needed = least_checkpoint_bytes(state, options.weights_only);
  if (!room || *room >= needed) return;
  throw StorageError("save_folder " + where + " has " + size_text(*room) +
                         " free, and a checkpoint of this run needs at least " + size_text(needed) +
                         ": free space there, or save elsewhere",
                     ENOSPC, /*retryable=*/true);
}

std::string warning_without_locks(const ObjectStore& store, const std::string& saved_path) {
  try {
    const StoreFeatures features = store.features();
    if (features.fenced_writes && features.fenced_pointers) return "";
  } catch (const StorageError&) {
    return "";  // The store cannot tell now.
  }
  return store.describe(parent_path(saved_path)) +
         " has no locks: a second start of this run is not noticed before both have saved";
}

}  // namespace cairn

#include "saving/check_savers.h"

#include <algorithm>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/error.h"

#include "checkpoint/names/format_string.h"
#include "checkpoint/names/shared_name.h"
#include "io/file.h"
#include "io/files/real_path.h"
#include "storage/local/local_store.h"

namespace cairn {
namespace {

// A path that a saver writes, as a format whose names are absolute paths, or names in the store.
struct WrittenPath {
  const void* where;  // Its store, as place_of() tells; null: uploads of loggers.
  NameFormat format;
  std::string described;  // "the checkpoints \"ep{epoch}.pt\" of saver 1 (weights, in ckpt)"
};

// Identifies a store's files. All local stores have one value, because a path is the same file in
// each.
const void* place_of(const ObjectStore& store) {
  if (const LocalFiles* const local = local_files_of(store)) return &local->files();
  if (store.names_are_paths()) return &posix_file_system();
  return &store;
}

NameFormat absolute_format(const CheckpointSaverOptions& options, const std::string& name,
                           const FormatVariables& dist) {
  std::string where = strict_format(NameFormat(options.folder), dist);
  std::string rest = name;
  const std::size_t slash = name.rfind('/');
  if (slash != std::string::npos && !has_counter(NameFormat(name.substr(0, slash)))) {
    where = join_path(where, strict_format(NameFormat(name.substr(0, slash)), dist));
    rest = name.substr(slash + 1);
  }
  where = options.store->names_are_paths() ? real_path(where) : normal_path(where);
  return NameFormat(join_path(NameFormat::of_name(where).text(), rest));
}

std::vector<WrittenPath> paths_of(const CheckpointSaver& saver, std::size_t number,
                                  const FormatVariables& dist, bool uploads) {
  const CheckpointSaverOptions& options = saver.options();
  const std::string whose = "\" of saver " + std::to_string(number) + " (" +
                            (options.weights_only ? "weights" : "whole state") + ", in " +
                            strict_format(NameFormat(options.folder), dist) + ")";
  std::vector<WrittenPath> paths = {{place_of(*options.store),
                                     absolute_format(options, options.filename, dist),
                                     "the checkpoints \"" + options.filename + whose}};
  if (options.latest_filename) {
    paths.push_back({place_of(*options.store),
                     absolute_format(options, *options.latest_filename, dist),
                     "the link \"" + *options.latest_filename + whose});
  }
  if (!uploads || !options.store->names_are_paths() || !options.remote_file_name) return paths;
  for (const auto& [what, name] :
       {std::pair{"the uploads \"", options.remote_file_name},
        std::pair{"the uploaded link \"", options.latest_remote_file_name}}) {
    if (name)
      paths.push_back({nullptr, partial_format(NameFormat(*name), dist), what + *name + whose});
  }
  return paths;
}

void check_pair(const std::vector<WrittenPath>& one, const std::vector<WrittenPath>& other,
                const FormatVariables& dist) {
  for (const WrittenPath& a : one) {
    for (const WrittenPath& b : other) {
      if (a.where != b.where) continue;
      const auto path = shared_name(a.format, b.format, dist);
      if (!path) continue;
      throw UsageError("two CheckpointSavers would write one path, such as " + *path + ": " +
                       a.described + ", and " + b.described +
                       ". Each would replace and remove the other's files. Give one of them " +
                       (a.where == nullptr
                            ? "another remote_file_name and latest_remote_file_name (nullopt: "
                              "no uploads)"
                            : "another folder, filename or latest_filename (nullopt: no link)"));
    }
  }
}

}  // namespace

std::vector<CheckpointSaver*> savers_among(
    const std::vector<std::shared_ptr<Callback>>& callbacks) {
  std::vector<CheckpointSaver*> savers;
  for (const auto& callback : callbacks) {
    if (auto* saver = dynamic_cast<CheckpointSaver*>(callback.get())) savers.push_back(saver);
  }
  return savers;
}

bool keeps_checkpoints(const CheckpointSaverOptions& options, bool uploads) {
  return options.store->may_be_far() || options.num_checkpoints_to_keep != 0 ||
         (uploads && options.remote_file_name);
}

bool saves_whole_state(const CheckpointSaver& saver, bool uploads) {
  return !saver.options().weights_only && keeps_checkpoints(saver.options(), uploads);
}

void check_paths(const std::vector<CheckpointSaver*>& savers, const std::string& run_name,
                 bool uploads) {
  const FormatVariables dist = dist_variables(run_name);
  std::vector<std::vector<WrittenPath>> before;
  for (std::size_t i = 0; i < savers.size(); ++i) {
    if (!keeps_checkpoints(savers[i]->options(), uploads)) continue;  // This saver writes nothing.
    std::vector<WrittenPath> paths = paths_of(*savers[i], i + 1, dist, uploads);
    for (const auto& other : before) {
      check_pair(other, paths, dist);
    }
    before.push_back(std::move(paths));
  }
}

}  // namespace cairn

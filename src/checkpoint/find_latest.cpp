// Which checkpoint to go on from.
//
//  1. Candidates are the files in the folder whose names fit the format, and what the latest link
//     points at. Names and the link only point at files; what counts is what the files say.
//  2. Each is opened, and its position in training read from its manifest, or from its timestamp
//     where Python wrote it.
//  3. From the furthest backwards, the first that verifies in full is the answer.
//
// What is passed over is reported and left where it is: a damaged checkpoint may be all that there
// is, and somebody may want to rescue its tensors.
#include <algorithm>
#include <tuple>

#include "cairn/checkpoint/names.h"
#include "cairn/error.h"

#include "base/atomic_file.h"
#include "checkpoint/latest_link.h"
#include "checkpoint/source.h"
#include "checkpoint/training_info.h"

namespace cairn {
namespace {

struct Sighting {
  std::string path;
  Timestamp timestamp;
  std::chrono::system_clock::time_point modified;

  auto order() const { return std::tuple_cat(position(timestamp), std::tie(modified)); }
};

// Paths below `folder` that were made from `format`, which may have folders in it.
std::vector<std::string> paths_from_format(FileSystem& files, const std::string& folder,
                                           const std::string& format, const FormatVariables& dist) {
  const std::size_t slash = format.find('/');
  std::vector<std::string> paths;
  for (const std::string& name : files.list(folder)) {
    if (is_temporary_name(name) || !parse_name(format.substr(0, slash), name, dist)) continue;
    const std::string path = join_path(folder, name);
    const auto info = files.stat(path);
    if (!info || (info->type == FileInfo::Type::kFolder) != (slash != std::string::npos)) continue;
    if (slash == std::string::npos) {
      paths.push_back(path);
    } else {
      const auto below = paths_from_format(files, path, format.substr(slash + 1), dist);
      paths.insert(paths.end(), below.begin(), below.end());
    }
  }
  return paths;
}

std::vector<std::string> candidate_paths(FileSystem& files, const std::string& folder,
                                         const FindOptions& options) {
  const FormatVariables dist = dist_variables(options.run_name);
  std::vector<std::string> paths = paths_from_format(files, folder, options.filename, dist);
  if (!options.latest_filename.empty()) {
    for (const std::string& link :
         paths_from_format(files, folder, options.latest_filename, dist)) {
      const auto target = files.read_link(link);  // a file instead of a link stands for itself
      paths.push_back(target ? join_path(parent_path(link), *target) : link);
    }
    for (const std::string& link :
         paths_from_format(files, folder, options.latest_filename + std::string(kLinkFile), dist)) {
      if (const auto target = read_link_file(files, link)) paths.push_back(*target);
    }
  }
  for (std::string& path : paths) {
    path = normal_path(path);
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

class Search {
 public:
  Search(FileSystem& files, const FindOptions& options) : files_(files), options_(options) {}

  // Step 2; nothing when the file has to be passed over.
  std::optional<Sighting> examine(const std::string& path) const {
    return unless_unusable(path, [&]() -> std::optional<Sighting> {
      const CheckpointInfo says = training_info(*open_source(path, {.files = &files_}));
      if (is_of_other_run(says)) {
        options_.on_other_run(path, says.run_name);
        return std::nullopt;
      }
      // Where in training it was made, if it holds the whole state.
      const auto where = says.kind == "full" ? says.timestamp : std::nullopt;
      if (!where && options_.full_state_only) {
        skip(path, "it does not hold the whole state of a training run");
        return std::nullopt;
      }
      const auto info = files_.stat(path);
      return Sighting{path, where.value_or(Timestamp{}),
                      info ? info->modified : std::chrono::system_clock::time_point{}};
    });
  }

  // Step 3.
  std::optional<FoundCheckpoint> check(const Sighting& candidate) const {
    return unless_unusable(candidate.path, [&]() -> std::optional<FoundCheckpoint> {
      VerifyReport report = verify(candidate.path, Verify::kFull, &files_);
      if (!report.ok()) {
        skip(candidate.path, report.summary());
        return std::nullopt;
      }
      return FoundCheckpoint{candidate.path, candidate.timestamp, std::move(report)};
    });
  }

 private:
  // What `look` gives; nothing, and a report, when the file cannot be used. Errors of one file
  // never end the search: an older one may be good.
  template <class Look>
  auto unless_unusable(const std::string& path, const Look& look) const -> decltype(look()) {
    try {
      return look();
    } catch (const Error& e) {
      skip(path, e.what());
      return std::nullopt;
    }
  }

  // One that does not say whose it is may be anybody's.
  bool is_of_other_run(const CheckpointInfo& says) const {
    return options_.on_other_run && !says.run_name.empty() && says.run_name != options_.run_name;
  }

  void skip(const std::string& path, const std::string& why) const {
    if (options_.on_skip) options_.on_skip(path, why);
  }

  FileSystem& files_;
  const FindOptions& options_;
};

}  // namespace

std::optional<FoundCheckpoint> find_latest(const std::string& folder, const FindOptions& options) {
  FileSystem& files = options.files != nullptr ? *options.files : posix_file_system();
  const std::string where = strict_format(folder, dist_variables(options.run_name));
  if (!files.stat(where)) return std::nullopt;
  const Search search(files, options);
  std::vector<Sighting> candidates;
  for (const std::string& path : candidate_paths(files, where, options)) {
    if (auto candidate = search.examine(path)) candidates.push_back(std::move(*candidate));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Sighting& a, const Sighting& b) { return a.order() > b.order(); });
  for (auto candidate = candidates.begin(); candidate != candidates.end(); ++candidate) {
    auto found = search.check(*candidate);
    if (!found) continue;
    std::for_each(candidate + 1, candidates.end(), [&](const Sighting& older) {
      if (options.on_older) options.on_older(older.path, older.timestamp);
    });
    return found;
  }
  return std::nullopt;
}

}  // namespace cairn

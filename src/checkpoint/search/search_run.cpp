#include "checkpoint/search/search_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/folder/folders_below.h"
#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/folder/search.h"
#include "checkpoint/names/launch.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/training_info.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "io/read_fault.h"

namespace cairn {
namespace {

constexpr const char* kBeginAnew =
    "To begin anew beside it, set autoresume_may_begin_anew; to leave it behind, move it to "
    "another "
    "folder";

bool holds_rank_tar(const FoundCheckpoint& found) {
  return Checkpoint::Impl::source_of(found.checkpoint).info().format == "deepspeed_rank";
}

// Searches one place.
class PlaceSearch {
 public:
  PlaceSearch(const RunSearch& search, const SearchPlace& place) : search_(search), place_(place) {}

  // Step 1.
  std::optional<FoundCheckpoint> find(const std::vector<std::string>& except) {
    const std::vector<NameFormat> filenames = place_.all_filenames();
    // Member by member: GCC 12 destroys members twice if one of them throws in a list.
    SearchOptions options;
    options.only_run_states = true;
    options.other_filenames.assign(filenames.begin() + 1, filenames.end());
    options.latest = place_.latest;
    FindOptions& find = options.find;
    find.filename = place_.filename;
    find.run_name = place_.run_name;
    find.latest_filename = place_.latest_filename;
    find.store = place_.store;
    find.verify = search_.verify;
    find.trust_latest = place_.store->may_be_far() && !place_.is_in_parts;
    find.except = except;
    for (const PassedOver& passed : search_.except) {
      if (passed.store != place_.store) continue;
      find.except.push_back(passed.path);
      skipped_[passed.path] = passed.why;
    }
    find.on_skip = [this](const std::string& path, const std::string& why) {
      skipped_[path] = why;
      if (search_.on_skip) search_.on_skip(path, why);
    };
    if (!place_.run_name.empty()) {
      find.on_other_run = [this](const std::string& path, const std::string& whose) {
        others_[path] = printable_line(whose);
        if (search_.on_other_run) search_.on_other_run(place_, path, whose);
      };
    }
    find.on_older = search_.on_older;
    return search_folder(place_.folder, options);
  }

  // Step 4.
  std::string why_not_anew() const {
    std::string why = why_not_beside_others();
    if (search_.may_begin_anew) return why;
    if (why.empty()) why = why_not_without_parts();
    if (why.empty()) why = why_not_without_whole();
    return why;
  }

 private:
  std::string why_not_beside_others() const {
    const FormatVariables dist = dist_variables(place_.run_name);
    for (const auto& [path, whose] : others_) {
      const std::string name = relative_path(normal_path(path), normal_path(place_.folder));
      if (!parse_name(place_.filename, name, dist)) continue;
      return fmt::format(
          "{0} has no checkpoint of the run \"{1}\", but {2} of the run \"{3}\" has a name that "
          "this run would write.\nTo go on with that run, set run_name to \"{3}\".\nTo begin "
          "another one, give it a folder of its own (save_folder \"{0}/{{run_name}}\") or put "
          "{{run_name}} into save_filename, and set load_path to begin from that checkpoint.",
          place_.folder, place_.run_name, path, whose);
    }
    return "";
  }

  std::string why_not_without_parts() const {
    if (!place_.store->names_are_paths()) return "";
    const SeePlace look_at = {.folder = place_.folder,
                              .filenames = place_.all_filenames(),
                              .writer = variables_of_writer(place_.run_name)};
    for (const SeenCheckpoint& one : see_checkpoints(*place_.store, look_at)) {
      const std::string path = join_path(place_.folder, one.name);
      const bool is_part = one.is_published ? is_machine_part(*place_.store, path)  //
                                            : one.was_published;
      if (!is_part) continue;
      return path +
             " has the files of one machine; the others are on machines that are not in this job. "
             "Start the job on those machines, too; or copy the folders of all machines together; "
             "or set autoresume_may_begin_anew to begin anew";
    }
    return "";
  }

  // Looks only into the newest files, since a folder may hold any number of files. An earlier
  // save_filename may have had folders in it, so a few files of subfolders are looked into, too.
  std::string why_not_without_whole() const {
    constexpr std::size_t kMaxInspected = 64;
    constexpr std::size_t kMaxFolders = 8;
    constexpr std::size_t kMaxInspectedPerPlace = 4;
    if (!place_.store->stat(place_.folder)) return "";
    const FolderListing here = list(place_.folder, kMaxInspected);
    std::string why = why_not_beside(here, "its name was made from none of " + names_of_formats());
    if (!why.empty()) return why;
    auto below = find_folders_below(*place_.store, place_.folder, here.folders).found;
    if (below.size() > kMaxFolders) below.resize(kMaxFolders);
    for (const auto& folder : below) {
      why = why_not_beside(list(folder.path, kMaxInspectedPerPlace),
                           "it is not in the folder " + place_.folder);
      if (!why.empty()) return why;
    }
    return "";
  }

  FolderListing list(const std::string& folder, std::size_t most) const {
    return list_checkpoints(
        folder, {.limits = {.files = most, .names_first = true}, .store = place_.store});
  }

  // Returns "" if none of the listed files is a whole checkpoint of the run. `reason`: why the
  // search did not find it.
  std::string why_not_beside(const FolderListing& listing, const std::string& reason) const {
    for (auto one = listing.checkpoints.rbegin(); one != listing.checkpoints.rend(); ++one) {
      if (!is_of_run(*one) || !is_proven_whole(one->path)) continue;
      const auto skipped = skipped_.find(normal_path(one->path));
      const std::string why =
          skipped != skipped_.end() ? without_path(skipped->second, one->path) : reason;
      return fmt::format(
          "{} is a whole checkpoint of the run \"{}\" (epoch {}, batch {}), and this start cannot "
          "go on from it: {}. {}",
          one->path, printable_line(one->info.run_name), one->info.timestamp->epoch,
          one->info.timestamp->batch, why, kBeginAnew);
    }
    return "";
  }

  bool is_of_run(const ListedCheckpoint& listed) const {
    const CheckpointInfo& info = listed.info;
    const bool is_own = place_.run_name.empty() || info.run_name == place_.run_name;
    return listed.condition == Condition::kGood && info.kind == "full" && info.timestamp && is_own;
  }

  // Only proven damage counts as damage. A file that cannot be read now ends the search.
  bool is_proven_whole(const std::string& path) const {
    try {
      const Checkpoint checkpoint = open_checkpoint(path, place_.store);
      if (!checkpoint.verify(Verify::kFull).ok()) return false;
      check_training_state(Checkpoint::Impl::source_of(checkpoint));
      return true;
    } catch (const Error& e) {
      if (read_fault_of(e) == ReadFault::kNow) throw;
      return false;
    }
  }

  std::string names_of_formats() const {
    std::string names;
    for (const NameFormat& format : place_.all_filenames()) {
      names += (names.empty() ? "\"" : ", \"") + format.text() + "\"";
    }
    return names;
  }

  const RunSearch& search_;
  const SearchPlace& place_;
  std::map<std::string, std::string> skipped_;  // by path: the reason
  std::map<std::string, std::string> others_;   // by path: the run's name
};

// Step 3. Verifies the tar, since no load follows that would find damage.
bool is_whole(const FoundCheckpoint& tar, const RunSearch& search) {
  const VerifyReport report = tar.checkpoint.verify(Verify::kFull);
  if (!report.ok() && search.on_skip) search.on_skip(tar.path, printable_line(report.summary()));
  return report.ok();
}

std::string why_not_taken(const FoundCheckpoint& tar) {
  return fmt::format(
      "{} (epoch {}, batch {}) is one rank's tar of a checkpoint: the run saved a tar of each "
      "rank (deepspeed_config), and this start does not. Start it with deepspeed_config to go on. "
      "{}",
      tar.path, tar.timestamp.epoch, tar.timestamp.batch, kBeginAnew);
}

}  // namespace

std::vector<NameFormat> SearchPlace::all_filenames() const {
  std::vector<NameFormat> all = {filename};
  for (const NameFormat& other : other_filenames) {
    if (std::ranges::find(all, other) == all.end()) all.push_back(other);
  }
  return all;
}

RunAnswer search_run(const RunSearch& search) {
  RunAnswer answer;
  std::deque<PlaceSearch> searched;
  for (std::size_t i = 0; i < search.places.size(); ++i) {
    PlaceSearch& place = searched.emplace_back(search, search.places[i]);
    auto found = place.find({});
    std::vector<std::string> tars;  // tars that this run skips
    while (found && !search.takes_rank_tars && holds_rank_tar(*found)) {
      if (!search.may_begin_anew && is_whole(*found, search)) break;
      tars.push_back(found->path);
      found = place.find(tars);
    }
    const bool is_further =
        found && (!answer.found || position(answer.found->timestamp) < position(found->timestamp));
    if (!is_further) continue;
    answer.found = std::move(found);
    answer.place = i;
  }
  if (!answer.found) {
    for (const PlaceSearch& place : searched) {
      if (answer.refusal.empty()) answer.refusal = place.why_not_anew();
    }
    return answer;
  }
  answer.is_rank_tar = holds_rank_tar(*answer.found);
  if (answer.is_rank_tar && !search.takes_rank_tars) {
    answer.refusal = why_not_taken(*answer.found);
    answer.found.reset();
  }
  return answer;
}

}  // namespace cairn

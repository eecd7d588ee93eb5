#include "cli/runs/resume_choice.h"

#include <fmt/format.h>

#include <set>

#include "cairn/checkpoint/names.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/open/source.h"
#include "cli/shell/folders.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

// Takes FOLDER as a path if such a folder exists, even with braces in its name. Otherwise FOLDER is
// a format, like the Trainer's save_folder.
std::string folder_of(const ResumeArgs& args) {
  const auto store = store_of(args.folder, nullptr);
  if (store->stat(shown_place(args.folder))) return args.folder;
  return strict_format(NameFormat(args.folder), dist_variables(args.run_name));
}

// Makes the same names as the layouts of src/saving/layouts/.
SearchPlace place_of(const ResumeArgs& args, const std::string& folder) {
  std::string filename = args.filename;
  std::string latest = args.latest_filename;
  if (args.state_dict_type == "sharded") {
    filename = as_folder_format(filename, args.sharded_folders);
  } else if (args.has_deepspeed_config) {
    filename = as_tar_format(filename);
    latest = as_tar_format(latest);
  }
  return {.store = store_of(folder, nullptr),
          .folder = shown_place(folder),
          .filename = NameFormat(filename),
          .latest_filename = NameFormat(latest),
          .run_name = args.run_name,
          .other_filenames = names_of_forms(args.filename, args.sharded_folders)};
}

// Adds files that look like checkpoints, but that the search did not consider.
void add_unsearched(const SearchPlace& place, ResumeExplanation& explanation) {
  const bool is_by_link = place.store->may_be_far() && explanation.answer.found;
  const std::string& format = explanation.format;
  const std::string reason = is_by_link ? "not looked at: what latest points at is good"
                                        : "not looked at: its name was not made from " + format +
                                              ", nor from the names " +
                                              "that sharded checkpoints and ranks' tars have";
  std::set<std::string> known;
  if (explanation.answer.found) known.insert(explanation.answer.found->path);
  for (const auto& [path, why] : explanation.others) {
    known.insert(path);
  }
  for (const ListedName& listed : list_all_if_any(*place.store, explanation.folder)) {
    const std::string path = normal_path(join_path(explanation.folder, listed.name));
    if (!has_checkpoint_name(listed.name) || known.contains(path)) continue;
    const auto info = info_of(*place.store, explanation.folder, listed);
    if (!info || info->type != ObjectInfo::Type::kObject) continue;
    explanation.others.emplace_back(path, reason);
    if (!is_by_link) ++explanation.other_names;
  }
}

// Finds the folders below that hold checkpoints: one of them may be the intended save_folder.
FoldersBelow find_below(ObjectStore& store, const std::string& folder) {
  std::vector<std::string> folders;
  for (const ListedName& listed : list_all_if_any(store, folder)) {
    const auto info = info_of(store, folder, listed);
    const bool is_folder = info && info->type == ObjectInfo::Type::kFolder;
    if (is_folder) folders.push_back(listed.name);
  }
  return find_folders_below(store, folder, folders);
}

}  // namespace

ResumeExplanation explain_resume(const ResumeArgs& args) {
  const std::string folder = folder_of(args);
  const SearchPlace place = place_of(args, folder);
  ResumeExplanation explanation{
      .folder = place.folder,
      .answer = {},
      .others = {},
      .format = partial_format(place.filename, dist_variables(place.run_name)).text(),
      .below = {}};
  const auto add = [&](const std::string& path, const std::string& why) {
    // A pointer's target may contain secrets of its store.
    const std::string shown = shown_place(path);
    explanation.others.emplace_back(shown, shown == path ? why : without_path(why, path));
  };
  RunSearch search{.places = {place},
                   .takes_rank_tars = true,
                   .may_begin_anew = args.may_begin_anew,
                   .verify = args.verify};
  search.on_skip = add;
  search.on_older = [&](const std::string& path, const Timestamp& timestamp) {
    add(path, "behind it, at " + moment_of(timestamp));
  };
  search.on_other_run = [&](const SearchPlace& /*place*/, const std::string& path,
                            const std::string& run_name) {
    add(path, "it is of the run \"" + run_name + "\"");
  };
  explanation.answer = search_run(search);
  auto& found = explanation.answer.found;
  if (found) found->path = shown_place(found->path);
  explanation.is_there = place.store->stat(explanation.folder).has_value();
  if (explanation.is_there) add_unsearched(place, explanation);
  if (explanation.is_there && !found) {
    explanation.below = find_below(*place.store, explanation.folder);
  }
  return explanation;
}

std::string moment_of(const Timestamp& timestamp) {
  return "epoch " + std::to_string(timestamp.epoch) + ", batch " + std::to_string(timestamp.batch);
}

std::string needed_option(const RunAnswer& answer) {
  return answer.is_rank_tar ? "deepspeed_config" : "";
}

namespace {

// The run may have had another save_filename, or another program may have saved.
std::string names_advice(const ResumeExplanation& explanation) {
  if (explanation.other_names == 0) return "";
  const bool is_one = explanation.other_names == 1;
  return fmt::format(
      ". {} there {} not looked at, because {} not made from {}. `cairn resume --save-filename "
      "FORMAT` looks at names of another format, as a run with that save_filename does",
      is_one ? "One checkpoint" : std::to_string(explanation.other_names) + " checkpoints",
      is_one ? "was" : "were", is_one ? "its name was" : "their names were",
      printable_line(explanation.format));
}

}  // namespace

std::string no_answer(const ResumeExplanation& explanation) {
  const std::string& refusal = explanation.answer.refusal;
  const std::string folder = printable_line(explanation.folder);
  const std::string found = explanation.is_there
                                ? "no checkpoint in " + folder + " that a run could go on from"
                                : "there is no folder " + folder;
  return found + ": a run with that save_folder would " +
         (refusal.empty() ? "start afresh" + names_advice(explanation)
                          : "refuse to start: " + refusal);
}

Json resume_json(const ResumeExplanation& explanation) {
  Json others = Json::array();
  for (const auto& [path, why] : explanation.others) {
    others.push_back({{"path", path}, {"why", why}});
  }
  const RunAnswer& answer = explanation.answer;
  Json shown = {{"folder", explanation.folder},
                {"path", nullptr},
                {"epoch", nullptr},
                {"batch", nullptr},
                {"sample", nullptr},
                {"needs", nullptr},
                {"refusal", nullptr},
                {"others", others},
                {"folders_below", folders_json(explanation.below)}};
  if (const auto& found = answer.found) {
    shown["path"] = found->path;
    shown["epoch"] = found->timestamp.epoch;
    shown["batch"] = found->timestamp.batch;
    shown["sample"] = found->timestamp.sample;
  }
  if (answer.is_rank_tar) shown["needs"] = needed_option(answer);
  if (!answer.refusal.empty()) shown["refusal"] = answer.refusal;
  return shown;
}

}  // namespace cairn::cli

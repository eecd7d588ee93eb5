// cairn resume: shows which checkpoint autoresume would resume from, and why not from the others.
// search_run() decides, as it does for the Trainer.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/names.h"
#include "cairn/exit_code.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/names/run_forms.h"
#include "checkpoint/search/search_run.h"
#include "cli/shell/command.h"
#include "cli/shell/folders.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct ResumeArgs {
  std::string folder;
  std::string run_name;
  std::string filename = "ep{epoch}-ba{batch}-rank{rank}.pt";
  std::string latest_filename = "latest-rank{rank}.pt";
  std::string sharded_folders = kShardedFolders;
  // The form in which the Trainer would save now. If neither option is set, a checkpoint is one
  // file.
  std::string state_dict_type = "full";
  bool has_deepspeed_config = false;
  bool may_begin_anew = false;
};

struct Explanation {
  std::string folder;  // with the run's name filled in, without secrets
  RunAnswer answer;
  std::vector<std::pair<std::string, std::string>> others;  // path, and the reason against it
  bool is_there = false;                                    // the folder exists
  FoldersBelow below = {};                                  // filled in when there is no answer
};

std::string moment_of(const Timestamp& timestamp) {
  return "epoch " + std::to_string(timestamp.epoch) + ", batch " + std::to_string(timestamp.batch);
}

// Takes FOLDER as a path if such a folder exists, even with braces in its name. Otherwise FOLDER is
// a format, like the Trainer's save_folder.
std::string folder_of(const ResumeArgs& options) {
  const auto store = store_of(options.folder, nullptr);
  if (store->stat(shown_place(options.folder))) return options.folder;
  return strict_format(NameFormat(options.folder), dist_variables(options.run_name));
}

// Makes the same names as the layouts of src/saving/layouts/.
SearchPlace place_of(const ResumeArgs& options, const std::string& folder) {
  std::string filename = options.filename;
  std::string latest = options.latest_filename;
  if (options.state_dict_type == "sharded") {
    filename = as_folder_format(filename, options.sharded_folders);
  } else if (options.has_deepspeed_config) {
    filename = as_tar_format(filename);
    latest = as_tar_format(latest);
  }
  return {.store = store_of(folder, nullptr),
          .folder = shown_place(folder),
          .filename = NameFormat(filename),
          .latest_filename = NameFormat(latest),
          .run_name = options.run_name,
          .other_filenames = names_of_forms(options.filename, options.sharded_folders)};
}

// Adds files that look like checkpoints, but that the search did not consider.
void add_unsearched(const SearchPlace& place, Explanation& explanation) {
  const bool is_by_link = place.store->may_be_far() && explanation.answer.found;
  const std::string format = partial_format(place.filename, dist_variables(place.run_name)).text();
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

Explanation explain(const ResumeArgs& options) {
  const std::string folder = folder_of(options);
  const SearchPlace place = place_of(options, folder);
  Explanation explanation{.folder = place.folder, .answer = {}, .others = {}, .below = {}};
  const auto add = [&](const std::string& path, const std::string& why) {
    // A pointer's target may contain secrets of its store.
    const std::string shown = shown_place(path);
    explanation.others.emplace_back(shown, shown == path ? why : without_path(why, path));
  };
  RunSearch search{.places = {place},
                   .takes_rank_tars = true,
                   .may_begin_anew = options.may_begin_anew,
                   .verify = Verify::kFull};
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

// The option that a Trainer needs to resume from the answer. Empty: none.
std::string needed_option(const RunAnswer& answer) {
  return answer.is_rank_tar ? "deepspeed_config" : "";
}

void print_no_answer(const Explanation& explanation, Console& console) {
  const std::string folder = printable_line(explanation.folder);
  const std::string& refusal = explanation.answer.refusal;
  const std::string found = explanation.is_there
                                ? "no checkpoint in " + folder + " that a run could go on from"
                                : "there is no folder " + folder;
  console.err << "cairn: " << found << ": a run with that save_folder would "
              << (refusal.empty() ? std::string("start afresh")
                                  : "refuse to start: " + printable(refusal))
              << "\n";
  if (explanation.below.found.empty()) return;
  console.err << "cairn: not looked at: the checkpoints in " << list_below(explanation.below)
              << "; name the save_folder itself\n";
}

void print(const Explanation& explanation, Console& console) {
  const RunAnswer& answer = explanation.answer;
  if (answer.found) {
    console.out << printable_line(answer.found->path) << "\n";
  }
  if (answer.found && !console.quiet) {
    console.out << moment_of(answer.found->timestamp) << "; " << answer.found->report.summary()
                << "\n";
  }
  if (answer.is_rank_tar) {
    console.out
        << "one rank's part: a Trainer with " << needed_option(answer)
        << " resumes from it if every rank has its tar of that save; any other Trainer refuses to "
           "start\n";
  }
  if (!explanation.others.empty() && !console.quiet) {
    Table table({"NOT CHOSEN", "WHY"});
    for (const auto& [path, why] : explanation.others) {
      table.add({path, without_path(why, path)});
    }
    table.print(console);
  }
  if (!answer.found) print_no_answer(explanation, console);
}

void print_json(const Explanation& explanation, Console& console) {
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
  console.print_json(shown);
}

int run_resume(const ResumeArgs& options, Console& console) {
  const Explanation explanation = explain(options);
  if (console.json) {
    print_json(explanation, console);
  } else {
    print(explanation, console);
  }
  return explanation.answer.found ? kDone : kNotFound;
}

}  // namespace

Run define_resume(CLI::App& app) {
  const auto options = std::make_shared<ResumeArgs>();
  app.add_option("FOLDER", options->folder,
                 "the run's save_folder; if no folder has that name, {run_name} in it is "
                 "filled in")
      ->required();
  app.add_flag("--explain")->description("no effect: the answer is always explained");
  app.add_option("--save-filename", options->filename,
                 "the Trainer's save_filename, if not ep{epoch}-ba{batch}-rank{rank}.pt")
      ->type_name("FORMAT");
  app.add_option("--save-latest-filename", options->latest_filename,
                 "the Trainer's save_latest_filename, if not latest-rank{rank}.pt")
      ->type_name("FORMAT");
  app.add_option("--run-name", options->run_name,
                 "the Trainer's run_name; others' checkpoints are not chosen")
      ->type_name("NAME");
  app.add_option("--sharded-ckpt-prefix-dir", options->sharded_folders,
                 "what sharded checkpoints are called, if not ep{epoch}-ba{batch}")
      ->type_name("FORMAT");
  auto* const sharded =
      app.add_option("--state-dict-type", options->state_dict_type,
                     "the Trainer's state_dict_type: whose names are in the way of a new run")
          ->type_name("full|sharded")
          ->check(CLI::IsMember({"full", "sharded"}));
  app.add_flag("--deepspeed-config", options->has_deepspeed_config,
               "the same of a Trainer with deepspeed_config, which saves a tar of each rank")
      ->excludes(sharded);
  app.add_flag("--autoresume-may-begin-anew", options->may_begin_anew,
               "as a Trainer with that option");
  app.footer(
      "The first line of the answer is the path that a Trainer with autoresume would load. In a "
      "folder it is the checkpoint that is furthest in training among those that verify in full, "
      "in any form that the run saved. In a store that is far away, the target of latest comes "
      "first: if it verifies, it is the answer, even if another file is further. Exit code 3 when "
      "there is none; the message says whether the Trainer would start afresh or refuse to start.");
  return [options](Console& console) { return run_resume(*options, console); };
}

}  // namespace cairn::cli

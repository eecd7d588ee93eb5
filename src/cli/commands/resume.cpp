// cairn resume --explain: which checkpoint autoresume would go on from, and why not the others.
// find_latest() decides, as it does for the Trainer.
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
#include "checkpoint/open/source.h"
#include "cli/shell/command.h"
#include "cli/view/table.h"
#include "core/json.h"
#include "core/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/local_store.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

using json = Json;

struct ResumeArgs {
  std::string folder;
  bool explain = false;
  FindOptions find;
};

struct Explanation {
  std::string folder;  // with the run's name filled in, as it may be shown
  std::optional<FoundCheckpoint> found;
  std::vector<std::pair<std::string, std::string>> others;  // path, why not
};

std::string place(const Timestamp& timestamp) {
  return "epoch " + std::to_string(timestamp.epoch) + ", batch " + std::to_string(timestamp.batch);
}

// Files that look like checkpoints, and that the search did not look at.
void add_unsought(const FindOptions& find, Explanation& explanation) {
  const std::string format = partial_format(find.filename, dist_variables(find.run_name));
  const std::string reason = find.trust_latest && explanation.found
                                 ? "not looked at: what latest points at is good"
                                 : "not looked at: its name was not made from " + format;
  std::set<std::string> known;
  if (explanation.found) known.insert(explanation.found->path);
  for (const auto& [path, why] : explanation.others) {
    known.insert(path);
  }
  for (const ListedName& listed : list_all(*find.store, explanation.folder)) {
    const std::string path = normal_path(join_path(explanation.folder, listed.name));
    if (!has_checkpoint_name(listed.name) || known.contains(path)) continue;
    const auto info = info_of(*find.store, explanation.folder, listed);
    if (!info || info->type != ObjectInfo::Type::kObject) continue;
    explanation.others.emplace_back(path, reason);
  }
}

Explanation explain(const ResumeArgs& options) {
  Explanation explanation;
  const std::string folder = strict_format(options.folder, dist_variables(options.find.run_name));
  explanation.folder = shown_place(folder);
  FindOptions find = options.find;
  find.store = store_of(folder, nullptr);
  find.trust_latest = !is_local(*find.store);
  const auto add = [&](const std::string& path, const std::string& why) {
    const std::string shown = shown_place(path);  // what a pointer gives has its store's secrets
    explanation.others.emplace_back(shown, shown == path ? why : without_path(why, path));
  };
  find.on_skip = add;
  find.on_older = [&](const std::string& path, const Timestamp& timestamp) {
    add(path, "behind it, at " + place(timestamp));
  };
  if (!find.run_name.empty()) {  // as a Trainer of that name
    find.on_other_run = [&](const std::string& path, const std::string& run_name) {
      add(path, "it is of the run \"" + run_name + "\"");
    };
  }
  explanation.found = find_latest(shown_place(options.folder), find);
  if (explanation.found) explanation.found->path = shown_place(explanation.found->path);
  if (find.store->stat(explanation.folder)) add_unsought(find, explanation);
  return explanation;
}

void print(const Explanation& explanation, Console& console) {
  if (explanation.found) {
    console.out << printable_line(explanation.found->path) << "\n"
                << place(explanation.found->timestamp) << "; "
                << explanation.found->report.summary() << "\n";
  }
  if (!explanation.others.empty()) {
    Table table({"NOT CHOSEN", "WHY"});
    for (const auto& [path, why] : explanation.others) {
      table.add({path, without_path(why, path)});
    }
    table.print(console);
  }
  if (!explanation.found) {
    console.err << "cairn: no checkpoint in " << printable_line(explanation.folder)
                << " that a run could go on from: it would start afresh\n";
  }
}

void print_json(const Explanation& explanation, Console& console) {
  json others = json::array();
  for (const auto& [path, why] : explanation.others) {
    others.push_back({{"path", path}, {"why", why}});
  }
  json answer = {{"folder", explanation.folder},
                 {"path", nullptr},
                 {"epoch", nullptr},
                 {"batch", nullptr},
                 {"sample", nullptr},
                 {"others", others}};
  if (const auto& found = explanation.found) {
    answer["path"] = found->path;
    answer["epoch"] = found->timestamp.epoch;
    answer["batch"] = found->timestamp.batch;
    answer["sample"] = found->timestamp.sample;
  }
  console.print_json(answer);
}

int run_resume(const ResumeArgs& options, Console& console) {
  const Explanation explanation = explain(options);
  if (console.json) {
    print_json(explanation, console);
  } else {
    print(explanation, console);
  }
  return explanation.found ? kDone : kNotFound;
}

}  // namespace

Run define_resume(CLI::App& app) {
  const auto options = std::make_shared<ResumeArgs>();
  app.add_option("FOLDER", options->folder, "the run's save_folder; may hold {run_name}")
      ->required();
  app.add_flag("--explain", options->explain, "say what would be chosen; nothing else is offered")
      ->required();
  app.add_option("--save-filename", options->find.filename,
                 "the Trainer's save_filename, if not ep{epoch}-ba{batch}-rank{rank}.pt")
      ->type_name("FORMAT");
  app.add_option("--save-latest-filename", options->find.latest_filename,
                 "the Trainer's save_latest_filename, if not latest-rank{rank}.pt")
      ->type_name("FORMAT");
  app.add_option("--run-name", options->find.run_name,
                 "the Trainer's run_name; others' checkpoints are not chosen")
      ->type_name("NAME");
  app.footer(
      "The first line of the answer is the path that a Trainer with autoresume would load: the one "
      "that is furthest in training among those that verify in full. Exit code 3 when there is "
      "none.");
  return [options](Console& console) { return run_resume(*options, console); };
}

}  // namespace cairn::cli

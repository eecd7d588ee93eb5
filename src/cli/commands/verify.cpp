// cairn verify: checks whether checkpoints are whole.
#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/open/source.h"
#include "cli/shell/command.h"
#include "cli/shell/folders.h"
#include "cli/view/joined.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct VerifyArgs {
  std::vector<std::string> paths;
  bool full = false;
  bool recursive = false;
};

struct Checked {
  std::string path;
  VerifyReport report = {};
  std::vector<std::string> not_read = {};  // files in a folder that are no part of the checkpoint
  std::string problem = {};  // why the checkpoint could not be checked; empty if it was checked
  ExitCode code = kDone;     // for the problem
};

Checked failed(const std::string& path, const std::exception& error) {
  return {.path = path,
          .problem = without_path(read_problem(error), path),
          .code = exit_code_of(error)};
}

struct Answer {
  std::vector<Checked> all;
  FoldersBelow below;           // not checked
  std::size_t passed_over = 0;  // files in folders that are no checkpoints
};

// Whether an extra file in a checkpoint folder has a name like the files that loaders use: an
// optimizer's state, random states, arguments.
bool has_state_name(const std::string& name) {
  return has_checkpoint_name(name) || name.ends_with(".bin") || name.ends_with(".pkl");
}

class Verification {
 public:
  Verification(const VerifyArgs& options, const Console& console)
      : options_(options), bar_(console, {.what = "verify", .total = 0}) {}

  Answer run() {
    for (const std::string& path : options_.paths) {
      try {
        add(path);
      } catch (const Error& e) {
        answer_.all.push_back(failed(path, e));
      }
    }
    for (std::size_t i = 0; i < answer_.all.size(); ++i) {  // check() may add more
      if (answer_.all[i].problem.empty()) check(i);
    }
    return std::move(answer_);
  }

 private:
  // Adds a checkpoint, or the checkpoints in a folder that is not itself a checkpoint.
  void add(const std::string& path) {
    if (!is_plain_folder(path)) return add_checkpoint(path);
    const std::size_t before = answer_.all.size();
    FoldersBelow below;
    walk_folders(path, options_.recursive, [&](const std::string& folder) {
      FolderListing listing = list_checkpoints(folder);
      std::vector<std::string> found;
      for (const ListedCheckpoint& listed : listing.checkpoints) {
        found.push_back(listed.path);
      }
      std::sort(found.begin(), found.end());
      std::for_each(found.begin(), found.end(), [this](const auto& one) { add_checkpoint(one); });
      answer_.passed_over += listing.passed_over;
      if (!options_.recursive) below = add_below(folder, listing.folders);
      return std::move(listing.folders);
    });
    if (answer_.all.size() > before) return;
    throw NotFoundError("there are no checkpoints in the folder " + shown_place(path) +
                        (below.found.empty() ? "" : ", only in folders below it"));
  }

  FoldersBelow add_below(const std::string& folder, const std::vector<std::string>& names) {
    FoldersBelow below = find_folders_below(*store_of(folder, nullptr), shown_place(folder), names);
    std::ranges::copy(below.found, std::back_inserter(answer_.below.found));
    answer_.below.is_complete = answer_.below.is_complete && below.is_complete;
    return below;
  }

  void add_checkpoint(const std::string& path) {
    const auto info = store_of(path, nullptr)->stat(shown_place(path));
    bar_.expect(info ? info->size : 0);
    answer_.all.push_back({.path = path});
  }

  void check(std::size_t index) {
    const std::string path = answer_.all[index].path;
    const OpenOptions opening = {.on_progress = [this](std::uint64_t bytes) { bar_.add(bytes); }};
    try {
      const Verify how = options_.full ? Verify::kFull : Verify::kQuick;
      const VerifiedPath verified = verify_path(path, how, opening);
      answer_.all[index].report = verified.report;
      if (!verified.not_read.empty()) add_rest(index, verified.not_read);
    } catch (const std::exception& e) {  // also a file that asks for more memory than there is
      answer_.all[index] = failed(path, e);
    }
  }

  // Adds other files in the folder of the answer at `index`.
  void add_rest(std::size_t index, const std::vector<std::string>& names) {
    const std::string folder = answer_.all[index].path;
    const auto store = store_of(folder, nullptr);
    std::vector<std::string> folders;
    for (const std::string& name : names) {
      const std::string path = join_path(folder, name);
      const auto info = store->stat(shown_place(path), /*follow=*/false);
      if (!info) continue;
      if (info->type == ObjectInfo::Type::kFolder) {
        folders.push_back(name);
      } else if (!add_file(path)) {
        answer_.all[index].not_read.push_back(name);
      }
    }
    for (const std::string& name : folders) {
      if (!add_folder(folder, name)) answer_.all[index].not_read.push_back(name + "/");
    }
  }

  // Returns false if this function does not look into the folder, or the folder holds no
  // checkpoints.
  bool add_folder(const std::string& folder, const std::string& name) {
    // PyTorch's writer joined the files of "sharded" into the files in `folder`.
    if (name == "sharded") return false;
    const std::string path = join_path(folder, name);
    if (options_.recursive) {
      try {
        add(path);
        return true;
      } catch (const NotFoundError&) {
        return false;
      }
    }
    if (is_plain_folder(path)) {
      add_below(folder, {name});
    } else {
      answer_.below.found.push_back({.path = path, .checkpoints = 1});
    }
    return false;
  }

  // Returns false if the file must not be checked: a text, a word table, another name for a checked
  // file.
  bool add_file(const std::string& path) {
    const auto store = store_of(path, nullptr);
    const auto pointer = store->read_pointer(shown_place(path));
    const bool is_alias =
        pointer && lies_in(*store, shown_place(parent_path(path)), pointer->target);
    // A .distcp file that .metadata does not name belongs to another save.
    if (is_alias || path.ends_with(".distcp")) return false;
    const std::string name = base_name(path);
    try {
      open_source(path);
      add_checkpoint(path);
    } catch (const Error& e) {
      if (!has_state_name(name)) return false;
      if (has_checkpoint_name(name)) {
        add_checkpoint(path);
      } else {
        answer_.all.push_back(failed(path, e));
        answer_.all.back().code = kIncompatible;  // the file may belong to another program
      }
    }
    return true;
  }

  const VerifyArgs& options_;
  ProgressBar bar_;
  Answer answer_;
};

std::string checks_text(const VerifyReport& report, bool full) {
  const std::string records = std::to_string(report.records) + " records";
  if (!report.has_checksums) return records + "; no checksums: only its structure was checked";
  if (!full) {
    return records +
           (report.has_manifest ? ", structure, sizes and manifest" : ", structure and sizes");
  }
  if (report.unchecked > 0) {
    return records + ", all match their checksums except " + std::to_string(report.unchecked) +
           " that have none";
  }
  return records +
         (report.has_manifest ? ", every byte accounted for" : ", all match their checksums");
}

void print(const std::vector<Checked>& all, const VerifyArgs& options, Console& console) {
  Table table({"PATH", ">SIZE", "STATE", "DETAIL"});
  for (const Checked& checked : all) {
    const VerifyReport& report = checked.report;
    if (!checked.problem.empty()) {
      table.add({shown_place(checked.path), "-", {"not read", &Console::red}, checked.problem});
    } else if (report.ok()) {
      table.add({shown_place(checked.path),
                 console.bytes(report.bytes),
                 {"ok", &Console::green},
                 checks_text(report, options.full)});
    }
    for (const Damage& damage : report.damage) {
      table.add({shown_place(checked.path),
                 console.bytes(report.bytes),
                 {"DAMAGED", &Console::red},
                 damage.describe()});
    }
  }
  table.print_report(console);
}

// Lists the files in a folder that are no part of the checkpoint.
void print_not_read(const std::vector<Checked>& all, Console& console) {
  constexpr std::size_t kMaxNames = 5;
  for (const Checked& checked : all) {
    std::vector<std::string> names = checked.not_read;
    if (names.empty()) continue;
    const std::size_t more = names.size() - std::min(names.size(), kMaxNames);
    names.resize(names.size() - more);
    console.out << printable_line(shown_place(checked.path))
                << ": not read, as no part of it: " << printable_line(joined(names))
                << (more > 0 ? " and " + std::to_string(more) + " more" : "") << "\n";
  }
}

Json describe(const Damage& damage) {
  return {{"what", damage.what},
          {"record", damage.record.empty() ? Json() : Json(damage.record)},
          {"tensors", damage.tensors},
          {"begin", damage.begin},
          {"end", damage.end}};
}

Json describe(const Checked& checked) {
  const VerifyReport& report = checked.report;
  const bool is_read = checked.problem.empty();
  Json damage = Json::array();
  for (const Damage& one : report.damage) {
    damage.push_back(describe(one));
  }
  return {{"path", shown_place(checked.path)},
          {"state", !is_read      ? "not read"
                    : report.ok() ? "ok"
                                  : "damaged"},
          {"problem", is_read ? Json() : Json(checked.problem)},
          {"records", report.records},
          {"bytes", report.bytes},
          {"manifest", is_read ? Json(report.has_manifest) : Json()},
          {"checksums", is_read ? Json(report.has_checksums) : Json()},
          {"not_read", checked.not_read},
          {"damage", std::move(damage)}};
}

void print_json(const Answer& answer, const VerifyArgs& options, Console& console) {
  Json files = Json::array();
  for (const Checked& checked : answer.all) {
    files.push_back(describe(checked));
  }
  console.print_json({{"checked", options.full ? "full" : "quick"},
                      {"files", std::move(files)},
                      {"passed_over", answer.passed_over},
                      {"folders_below", folders_json(answer.below)}});
}

// "2 of 5 damaged, 1 not read". Empty if the table already shows everything.
std::string count_text(const std::vector<Checked>& all, std::ptrdiff_t damaged) {
  const auto unread =
      std::count_if(all.begin(), all.end(), [](const Checked& c) { return !c.problem.empty(); });
  if (damaged == 0 && all.size() == 1) return {};
  const std::string checked = std::to_string(static_cast<std::ptrdiff_t>(all.size()) - unread);
  const std::string text = damaged > 0 ? std::to_string(damaged) + " of " + checked + " damaged"
                                       : checked + " checked, none damaged";
  return text + (unread > 0 ? ", " + std::to_string(unread) + " not read" : "") + "\n";
}

void print(const Answer& answer, std::ptrdiff_t damaged, const VerifyArgs& options,
           Console& console) {
  print(answer.all, options, console);
  if (!console.quiet) {
    console.out << count_text(answer.all, damaged);
    print_not_read(answer.all, console);
  }
  if (answer.passed_over > 0 && !console.quiet) {
    console.err << "cairn: passed over " << answer.passed_over << " that "
                << (answer.passed_over == 1 ? "is no checkpoint" : "are no checkpoints") << "\n";
  }
  tell_below(answer.below, console);
}

int run_verify(const VerifyArgs& options, Console& console) {
  const Answer answer = Verification(options, console).run();
  const std::vector<Checked>& all = answer.all;
  const auto damaged =
      std::count_if(all.begin(), all.end(), [](const Checked& c) { return !c.report.ok(); });
  if (console.json) {
    print_json(answer, options, console);
  } else {
    print(answer, damaged, options, console);
  }
  if (damaged > 0) return kNegativeAnswer;
  const auto problem =
      std::find_if(all.begin(), all.end(), [](const Checked& c) { return !c.problem.empty(); });
  if (problem != all.end()) return problem->code;
  return answer.below.found.empty() ? kDone : kFailed;
}

}  // namespace

Run define_verify(CLI::App& app) {
  const auto options = std::make_shared<VerifyArgs>();
  app.add_option("PATH", options->paths, "checkpoints, or folders of checkpoints")->required();
  app.add_flag("--full", options->full, "check every byte, on all cores");
  add_recursive(app, options->recursive);
  app.footer(
      "Without --full, only structure, sizes and manifest are checked: no tensor is read. Exit "
      "code 1 when a checkpoint is damaged, 3 when a folder holds none, 2 when folders below hold "
      "checkpoints that were not looked at.");
  return [options](Console& console) { return run_verify(*options, console); };
}

}  // namespace cairn::cli

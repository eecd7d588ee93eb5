// cairn verify: whether checkpoints are whole.
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/open/source.h"
#include "cli/shell/command.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "core/json.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct VerifyArgs {
  std::vector<std::string> paths;
  bool full = false;
};

struct Checked {
  std::string path;
  VerifyReport report = {};
  std::string problem = {};  // why it could not be checked; empty when it was
  ExitCode code = kDone;     // of the problem
};

Checked failed(const std::string& path, const std::exception& error) {
  return {.path = path,
          .problem = without_path(read_problem(error), path),
          .code = exit_code_of(error)};
}

// What a folder stands for: itself when it is a checkpoint, else the checkpoints in it.
std::vector<std::string> checkpoints_of(const std::string& path) {
  if (!is_folder(*store_of(path, nullptr), path)) return {path};
  try {
    open_source(path);
    return {path};
  } catch (const UsageError&) {  // a folder that is none itself
  } catch (const Error&) {
    return {path};  // verify_path() says what is wrong with it
  }
  std::vector<std::string> found;
  for (const ListedCheckpoint& listed : list_checkpoints(path).checkpoints) {
    found.push_back(listed.path);
  }
  std::sort(found.begin(), found.end());
  if (found.empty())
    throw NotFoundError("there are no checkpoints in the folder " + shown_place(path));
  return found;
}

std::vector<Checked> check_all(const VerifyArgs& options, const Console& console) {
  std::vector<Checked> all;
  std::uint64_t total = 0;
  for (const std::string& path : options.paths) {
    try {
      for (const std::string& checkpoint : checkpoints_of(path)) {
        all.push_back({.path = checkpoint});
        const auto info = store_of(checkpoint, nullptr)->stat(checkpoint);
        total += info ? info->size : 0;
      }
    } catch (const Error& e) {
      all.push_back(failed(path, e));
    }
  }
  ProgressBar bar(console, {.what = "verify", .total = total});
  const OpenOptions opening = {.on_progress = [&](std::uint64_t bytes) { bar.add(bytes); }};
  for (Checked& checked : all) {
    if (!checked.problem.empty()) continue;
    try {
      const Verify how = options.full ? Verify::kFull : Verify::kQuick;
      checked.report = verify_path(checked.path, how, opening);
    } catch (const std::exception& e) {  // also one that asks for more memory than there is
      checked = failed(checked.path, e);
    }
  }
  return all;
}

std::string what_was_checked(const VerifyReport& report, bool full) {
  const std::string records = std::to_string(report.records) + " records";
  if (!report.has_checksums) return records + "; no checksums: only its structure was checked";
  if (!full) {
    return records +
           (report.has_manifest ? ", structure, sizes and manifest" : ", structure and sizes");
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
                 what_was_checked(report, options.full)});
    }
    for (const Damage& damage : report.damage) {
      table.add({shown_place(checked.path),
                 console.bytes(report.bytes),
                 {"DAMAGED", &Console::red},
                 damage.describe()});
    }
  }
  table.print(console);
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
          {"damage", std::move(damage)}};
}

void print_json(const std::vector<Checked>& all, const VerifyArgs& options, Console& console) {
  Json files = Json::array();
  for (const Checked& checked : all) {
    files.push_back(describe(checked));
  }
  console.print_json({{"checked", options.full ? "full" : "quick"}, {"files", std::move(files)}});
}

// "2 of 5 damaged, 1 not read"; empty when the table has said it all.
std::string count_text(const std::vector<Checked>& all, std::ptrdiff_t damaged) {
  const auto unread =
      std::count_if(all.begin(), all.end(), [](const Checked& c) { return !c.problem.empty(); });
  if (damaged == 0 && all.size() == 1) return {};
  const std::string checked = std::to_string(static_cast<std::ptrdiff_t>(all.size()) - unread);
  const std::string text = damaged > 0 ? std::to_string(damaged) + " of " + checked + " damaged"
                                       : checked + " checked, none damaged";
  return text + (unread > 0 ? ", " + std::to_string(unread) + " not read" : "") + "\n";
}

int run_verify(const VerifyArgs& options, Console& console) {
  const std::vector<Checked> all = check_all(options, console);
  const auto damaged =
      std::count_if(all.begin(), all.end(), [](const Checked& c) { return !c.report.ok(); });
  if (console.json) {
    print_json(all, options, console);
  } else {
    print(all, options, console);
    console.out << count_text(all, damaged);
  }
  if (damaged > 0) return kNegativeAnswer;
  const auto problem =
      std::find_if(all.begin(), all.end(), [](const Checked& c) { return !c.problem.empty(); });
  return problem == all.end() ? kDone : problem->code;
}

}  // namespace

Run define_verify(CLI::App& app) {
  const auto options = std::make_shared<VerifyArgs>();
  app.add_option("PATH", options->paths, "checkpoints, or folders of checkpoints")->required();
  app.add_flag("--full", options->full, "check every byte, on all cores");
  app.footer(
      "Without --full, structure, sizes and manifest are checked: no tensor is read. Exit code 1 "
      "when a checkpoint is damaged.");
  return [options](Console& console) { return run_verify(*options, console); };
}

}  // namespace cairn::cli

// cairn report RUN... -o OUT: writes a page that shows several runs.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "cli/report/gathered_run.h"
#include "cli/report/page.h"
#include "cli/report/report_data.h"
#include "cli/shell/command.h"
#include "cli/shell/out_place.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/place.h"
#include "storage/publish/replace.h"

namespace cairn::cli {
namespace {

struct ReportArgs {
  std::vector<std::string> runs;
  std::vector<std::string> checkpoints;
  std::string out;
  bool overwrite = false;
  ListingArgs listing = {};
};

void check(const ReportArgs& options) {
  check_out_place(options.out);
  if (!options.out.ends_with(".html")) {
    throw UsageError(options.out + ": a report is a page, and its name ends with .html");
  }
  if (options.checkpoints.size() > options.runs.size()) {
    throw UsageError("--checkpoints was given " + std::to_string(options.checkpoints.size()) +
                     " times for " + std::to_string(options.runs.size()) +
                     " runs; the first belongs to the first run, and so on");
  }
}

std::vector<GatheredRun> gather(const ReportArgs& options, const Console& console) {
  std::vector<GatheredRun> runs;
  for (std::size_t i = 0; i < options.runs.size(); ++i) {
    const bool is_named = i < options.checkpoints.size();
    runs.push_back(
        gather_run({.run = options.runs[i], .checkpoints = is_named ? options.checkpoints[i] : ""},
                   options.listing, console));
    if (runs.back().log) tell_passed_over(*runs.back().log, console);
  }
  return runs;
}

void write(const std::string& page, const ReportArgs& options) {
  const auto store = store_of(options.out, nullptr);
  const auto file =
      store->begin(options.out, {.condition = condition_of(replace_if(options.overwrite))});
  file->write(as_bytes(page));
  file->commit();
}

bool has_bad(const std::vector<GatheredRun>& runs) {
  const auto is_bad = [](const ListedCheckpoint& listed) {
    return listed.condition != Condition::kGood;
  };
  return std::ranges::any_of(runs, [&](const GatheredRun& run) {
    return std::ranges::any_of(run.folders, [&](const GatheredFolder& folder) {
      return std::ranges::any_of(folder.listed.listing.checkpoints, is_bad);
    });
  });
}

int run_report(const ReportArgs& options, Console& console) {
  check(options);
  const std::vector<GatheredRun> runs = gather(options, console);
  const std::string page =
      report_page(report_data(runs, options.listing.verify, std::chrono::system_clock::now()));
  write(page, options);
  const std::string shown = shown_place(options.out);
  if (console.json) {
    console.print_json({{"out", shown}, {"bytes", page.size()}, {"runs", runs.size()}});
  } else {
    console.out << printable_line(shown) << ": " << runs.size()
                << (runs.size() == 1 ? " run, " : " runs, ") << console.bytes(page.size()) << "\n";
  }
  return options.listing.verify && has_bad(runs) ? kNegativeAnswer : kDone;
}

}  // namespace

Run define_report(CLI::App& app) {
  const auto options = std::make_shared<ReportArgs>();
  app.add_option(
         "RUN", options->runs,
         "logs of FileLogger, event files for TensorBoard, or the folders of runs, with a log, "
         "checkpoints, or both")
      ->required();
  app.add_option("-o,--out", options->out, "write to this file, NAME.html")->required();
  app.add_option(
         "--checkpoints", options->checkpoints,
         "the folder with the checkpoints of a run whose log is elsewhere; may be repeated, "
         "the first is the first RUN's")
      ->type_name("FOLDER")
      ->allow_extra_args(false);
  app.add_flag("--verify", options->listing.verify,
               "check every byte of all checkpoints; exit code 1 when one is not good");
  app.add_flag("--all", options->listing.all,
               "open all checkpoints of a folder, not only the newest hundred");
  app.add_flag("--overwrite", options->overwrite, "replace the file when it exists");
  app.footer(
      "The page needs no network and no other file. It shows the curves of all runs together, "
      "their "
      "checkpoints in the folder and those below, what autoresume would choose and why, how the "
      "runs' hyperparameters differ, when they started and stopped, and the storage that they use. "
      "Without --verify only structure and sizes of checkpoints are checked, as by `cairn ls`. The "
      "runs may still be training.");
  return [options](Console& console) { return run_report(*options, console); };
}

}  // namespace cairn::cli

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
#include "cli/shell/run_args.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct ReportArgs {
  RunArgs runs;
  std::string out;
  bool overwrite = false;
  ListingArgs listing = {};
};

void check(const ReportArgs& options) {
  check_out_place(options.out);
  if (!options.out.ends_with(".html")) {
    throw UsageError(options.out + ": a report is a page, and its name ends with .html");
  }
}

std::vector<GatheredRun> gather(const ReportArgs& options, const Console& console) {
  std::vector<GatheredRun> runs;
  for (const RunPlaces& places : places_of(options.runs)) {
    runs.push_back(gather_run(places, options.listing, console));
    if (runs.back().log) tell_passed_over(*runs.back().log, console);
  }
  return runs;
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
  write_out(options.out, page, options.overwrite);
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
  add_runs(app, options->runs);
  app.add_option("-o,--out", options->out, "write to this file, NAME.html")->required();
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

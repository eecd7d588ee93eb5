// cairn metrics RUN...: prints how runs stand, for Prometheus.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "cli/runs/find_runs.h"
#include "cli/runs/watched_run.h"
#include "cli/serve/run_metrics.h"
#include "cli/shell/command.h"
#include "cli/shell/out_place.h"
#include "cli/shell/run_args.h"
#include "core/text/json.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct MetricsArgs {
  RunArgs runs;
  std::string out;
};

void check(const MetricsArgs& options) {
  if (options.out.empty()) return;
  check_out_place(options.out);
  if (!options.out.ends_with(".prom"))
    throw UsageError(options.out + ": node_exporter reads only files whose name ends with .prom");
}

struct Looked {
  std::vector<RunStatus> runs;
  int code = kDone;  // of the first run that cannot be read
};

// A run that cannot be read does not hide the others.
Looked look_at(const MetricsArgs& options, const Console& console) {
  Looked looked;
  for (const RunPlaces& places : places_of(options.runs)) {
    RunStatus status = {.name = shown_place(places.run)};
    try {
      check_places(places);
      WatchedRun run(places);
      run.look();
      status = run.status();
    } catch (const Error& error) {
      status.problem = error.what();
      console.err << "cairn: " << error.what() << "\n";
      if (looked.code == kDone) looked.code = exit_code_of(error);
    }
    looked.runs.push_back(std::move(status));
  }
  return looked;
}

int run_metrics_command(const MetricsArgs& options, Console& console) {
  check(options);
  const Looked looked = look_at(options, console);
  if (console.json) {
    Json all = Json::array();
    for (const RunStatus& run : looked.runs)
      all.push_back(status_json(run));
    console.print_json({{"runs", std::move(all)}});
    return looked.code;
  }
  const std::string text = run_metrics(looked.runs, std::chrono::system_clock::now());
  if (options.out.empty()) {
    console.out << text;
  } else {
    write_out(options.out, text, /*overwrite=*/true);
  }
  return looked.code;
}

}  // namespace

Run define_metrics(CLI::App& app) {
  const auto options = std::make_shared<MetricsArgs>();
  add_runs(app, options->runs);
  app.add_option("-o,--out", options->out,
                 "write to this file, NAME.prom, for node_exporter's textfile collector; replaces "
                 "the file, so that a reader sees all of the old one or of the new one");
  app.footer(
      "Prints the text format of Prometheus: how far each run is, its state, the latest value of "
      "each metric, the newest good checkpoint and its age, and counts of saves. `cairn serve` "
      "answers the same at /metrics. With --json: what `cairn watch --once --json` prints.");
  return [options](Console& console) { return run_metrics_command(*options, console); };
}

}  // namespace cairn::cli

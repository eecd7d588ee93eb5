#include "cli/shell/run_args.h"

#include <cstddef>

#include "cairn/error.h"

namespace cairn::cli {

void add_runs(CLI::App& app, RunArgs& args) {
  app.add_option(
         "RUN", args.runs,
         "logs of FileLogger, event files for TensorBoard, or the folders of runs, with a log, "
         "checkpoints, or both")
      ->required();
  app.add_option(
         "--checkpoints", args.checkpoints,
         "the folder with the checkpoints of a run whose log is elsewhere; may be repeated, "
         "the first is the first RUN's")
      ->type_name("FOLDER")
      ->allow_extra_args(false);
}

std::vector<RunPlaces> places_of(const RunArgs& args) {
  if (args.checkpoints.size() > args.runs.size()) {
    throw UsageError("--checkpoints was given " + std::to_string(args.checkpoints.size()) +
                     " times for " + std::to_string(args.runs.size()) +
                     " runs; the first belongs to the first run, and so on");
  }
  std::vector<RunPlaces> places;
  for (std::size_t i = 0; i < args.runs.size(); ++i) {
    const bool is_named = i < args.checkpoints.size();
    places.push_back({.run = args.runs[i], .checkpoints = is_named ? args.checkpoints[i] : ""});
  }
  return places;
}

}  // namespace cairn::cli

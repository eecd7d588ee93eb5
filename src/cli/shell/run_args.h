// Commands that show runs: RUN... and where their checkpoints are.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/runs/run_places.h"

namespace cairn::cli {

struct RunArgs {
  std::vector<std::string> runs;
  std::vector<std::string> checkpoints;  // the first belongs to the first run, and so on
};

// Declares RUN... and --checkpoints.
void add_runs(CLI::App& app, RunArgs& args);

// Throws UsageError if there are more folders of checkpoints than runs.
std::vector<RunPlaces> places_of(const RunArgs& args);

}  // namespace cairn::cli

// How `cairn watch` shows runs to people.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/runs/run_status.h"
#include "cli/view/console.h"
#include "terminal/terminal.h"

namespace cairn::cli {

struct ViewedRun {
  const RunStatus& status;
  // Points of main_value()'s metric; nullptr: no plot is drawn.
  const std::vector<MetricPoint>* curve = nullptr;
  std::chrono::seconds age = {};  // since the last sign of the run
  bool is_silent = false;         // for longer than the user allows
  bool is_missing = false;        // nothing of the run is there yet
  bool is_awaited = false;        // the run has ended, and is expected to start again
};

// Lines with all that is known. Runs stand side by side if the terminal is wide enough, and their
// plots are as high as its rows allow.
std::vector<std::string> view_of(const std::vector<ViewedRun>& runs, TerminalSize size,
                                 const Console& console);

// The same for a screen that is drawn again and again. If there is no room for all runs, those that
// went badly are first, and the last line says how many are left out.
std::vector<std::string> fitting_view_of(const std::vector<ViewedRun>& runs, TerminalSize size,
                                         const Console& console);

// One line, for the log of a job.
std::string line_of(const ViewedRun& run);

// A message as one line: when it was logged, and the run that logged it unless it is empty.
std::string message_line(const RunMessage& message, const std::string& run);

}  // namespace cairn::cli

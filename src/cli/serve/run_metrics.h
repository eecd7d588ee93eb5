// How runs stand, for Prometheus: its text format 0.0.4.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/runs/run_status.h"

namespace cairn::cli {

// The Content-Type of the text.
inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// One line for each metric of each run, with the run's name as the label `run`. If several
// runs have one name, the first counts: Prometheus refuses a text that has a metric twice.
std::string run_metrics(const std::vector<RunStatus>& runs,
                        std::chrono::system_clock::time_point now);

// A line for a server that looks at a bounded number of runs.
std::string not_looked_at_metric(std::size_t folders);

}  // namespace cairn::cli

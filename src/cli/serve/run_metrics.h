// How runs stand, for Prometheus: its text format 0.0.4.
#pragma once

#include <chrono>
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

}  // namespace cairn::cli

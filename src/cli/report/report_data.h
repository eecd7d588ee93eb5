// The JSON that the page of a report reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "cli/report/gathered_run.h"
#include "core/text/json_fwd.h"

namespace cairn::cli {

// An object with `runs`. Names that come from files are values there, never keys. The points of all
// curves together are bounded, so that a page stays below 5 MB, however long the runs are.
Json report_data(const std::vector<GatheredRun>& runs, bool is_verified,
                 std::chrono::system_clock::time_point now);

// As JSON has times: since 1970.
std::int64_t milliseconds(std::chrono::system_clock::time_point time);

}  // namespace cairn::cli

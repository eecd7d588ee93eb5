// Curves with few enough points for a page or a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cli/runs/run_log.h"

namespace cairn::cli {

// Points, or, if there were too many, groups of neighbours. NaN where nothing is finite.
struct ThinCurve {
  std::vector<std::int64_t> batches;
  std::vector<double> values;      // the means of groups
  std::vector<double> lows = {};   // the extremes of groups; empty if each group is one point
  std::vector<double> highs = {};  // as long as `lows`
};

// A curve of at most `most` points, or of half as many groups, which are as large in the page. A
// spike of one point stays visible: it is an extreme of its group.
ThinCurve thin(const std::vector<MetricPoint>& points, std::size_t most);

// The number of points that each curve may have, so that together they have at most `budget`: what
// short curves do not use is for the long ones. `counts` has the number of points of each.
std::size_t fair_share(std::vector<std::size_t> counts, std::size_t budget);

}  // namespace cairn::cli

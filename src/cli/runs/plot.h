// Draws a curve with the dots of Braille characters, two by four to a column.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cli/runs/run_log.h"

namespace cairn::cli {

// The range of finite values. It is empty until include() finds one.
struct PlotRange {
  std::int64_t first_batch = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_batch = std::numeric_limits<std::int64_t>::min();
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();

  void include(const std::vector<MetricPoint>& points);
  bool is_empty() const { return lowest > highest; }
};

struct PlotSize {
  int columns = 80;  // of the whole line, with the labels; at least 20
  int rows = 8;      // of the curve; at least 2
};

// The lines of a plot: the curve with the range of values at its left, and the range of batches
// below it. `range` may be wider than the points, so that several plots can be compared.
std::vector<std::string> plot(const std::vector<MetricPoint>& points, const PlotRange& range,
                              PlotSize size);

}  // namespace cairn::cli

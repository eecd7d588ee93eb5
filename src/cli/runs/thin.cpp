#include "cli/runs/thin.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace cairn::cli {
namespace {

constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();

double finite_or_none(double value) { return std::isfinite(value) ? value : kNotFinite; }

void add_group(ThinCurve& curve, std::span<const MetricPoint> group) {
  double low = kNotFinite;
  double high = kNotFinite;
  double mean = 0;
  std::size_t count = 0;
  for (const MetricPoint& point : group) {
    if (!std::isfinite(point.value)) continue;
    low = count == 0 ? point.value : std::min(low, point.value);
    high = count == 0 ? point.value : std::max(high, point.value);
    // The sum of large values may not be finite.
    mean += (point.value - mean) / static_cast<double>(++count);
  }
  curve.batches.push_back(group[group.size() / 2].batch);
  curve.values.push_back(count == 0 ? kNotFinite : mean);
  curve.lows.push_back(low);
  curve.highs.push_back(high);
}

}  // namespace

ThinCurve thin(const std::vector<MetricPoint>& points, std::size_t most) {
  ThinCurve curve;
  if (points.size() <= most) {
    for (const auto& [batch, value] : points) {
      curve.batches.push_back(batch);
      curve.values.push_back(finite_or_none(value));
    }
    return curve;
  }
  const std::size_t groups = std::max<std::size_t>(most / 2, 1);
  for (std::size_t i = 0; i < groups; ++i) {
    const std::size_t begin = points.size() * i / groups;
    const std::size_t end = points.size() * (i + 1) / groups;
    add_group(curve, std::span(points).subspan(begin, end - begin));
  }
  // The curve begins and ends where it was logged.
  curve.batches.front() = points.front().batch;
  curve.batches.back() = groups > 1 ? points.back().batch : curve.batches.back();
  return curve;
}

std::size_t fair_share(std::vector<std::size_t> counts, std::size_t budget) {
  std::ranges::sort(counts);
  std::size_t left = budget;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::size_t share = left / (counts.size() - i);
    if (counts[i] > share) return std::max<std::size_t>(share, 2);
    left -= counts[i];
  }
  return counts.empty() ? budget : counts.back();
}

}  // namespace cairn::cli

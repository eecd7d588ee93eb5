#include "cli/runs/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>

namespace cairn::cli {
namespace {

constexpr int kLabelColumns = 11;

// Dots of a picture; the origin is at the top left.
class Dots {
 public:
  Dots(int columns, int rows)
      : columns_(columns),
        cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}
  int width() const { return 2 * columns_; }
  int height() const { return 4 * static_cast<int>(cells_.size()) / columns_; }

  struct Dot {
    int x;
    int y;
  };
  // Draws a line that has a dot in each column of dots, and no gap between them.
  void line(Dot from, Dot to) {
    const int steps = std::max({std::abs(to.x - from.x), std::abs(to.y - from.y), 1});
    for (int i = 0; i <= steps; ++i) {
      set({from.x + (to.x - from.x) * i / steps, from.y + (to.y - from.y) * i / steps});
    }
  }

  std::string row(int number) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const unsigned bits = cells_[cell(column, number)];
      // U+2800 to U+28FF in UTF-8; a blank stays a blank.
      if (bits == 0) {
        text += ' ';
      } else {
        text += '\xe2';
        text += static_cast<char>(0xa0U | bits >> 6U);
        text += static_cast<char>(0x80U | (bits & 0x3fU));
      }
    }
    return text;
  }

 private:
  std::size_t cell(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(column);
  }
  void set(Dot dot) {
    // Unicode numbers the dots of the left column 1, 2, 3 and 7, and those of the right one 4, 5, 6
    // and 8.
    constexpr std::array<std::array<unsigned, 4>, 2> kBits = {
        {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    cells_[cell(dot.x / 2, dot.y / 4)] |=
        kBits[static_cast<std::size_t>(dot.x % 2)][static_cast<std::size_t>(dot.y % 4)];
  }

  int columns_;
  std::vector<unsigned> cells_;
};

// The place of `value` among `count` dots, for a range that may be one value.
int place(double value, double first, double last, int count) {
  if (!(last > first)) return count / 2;
  // Halves, because the difference of two large values may not be finite.
  const double share = (value / 2 - first / 2) / (last / 2 - first / 2);
  return static_cast<int>(std::lround(share * (count - 1)));
}

std::string label(double value) { return fmt::format("{:>{}.4g} ", value, kLabelColumns - 1); }

}  // namespace

void PlotRange::include(const std::vector<MetricPoint>& points) {
  for (const auto& [batch, value] : points) {
    if (!std::isfinite(value)) continue;
    first_batch = std::min(first_batch, batch);
    last_batch = std::max(last_batch, batch);
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
}

std::vector<std::string> plot(const std::vector<MetricPoint>& points, const PlotRange& range,
                              PlotSize size) {
  Dots dots(std::max(size.columns - kLabelColumns, 9), std::max(size.rows, 2));
  Dots::Dot last = {};
  bool is_gap = true;
  for (const auto& [batch, value] : points) {
    if (!std::isfinite(value)) {
      is_gap = true;
      continue;
    }
    const Dots::Dot dot = {
        place(static_cast<double>(batch), static_cast<double>(range.first_batch),
              static_cast<double>(range.last_batch), dots.width()),
        dots.height() - 1 - place(value, range.lowest, range.highest, dots.height())};
    dots.line(is_gap ? dot : last, dot);
    last = dot;
    is_gap = false;
  }
  const int rows = dots.height() / 4;
  std::vector<std::string> lines;
  for (int row = 0; row < rows; ++row) {
    const std::string beside = row == 0          ? label(range.highest)
                               : row == rows - 1 ? label(range.lowest)
                                                 : std::string(kLabelColumns, ' ');
    const std::string line = beside + dots.row(row);
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  const std::string end = std::to_string(range.last_batch);
  std::string axis = std::string(kLabelColumns, ' ') + std::to_string(range.first_batch);
  const auto right = static_cast<std::size_t>(kLabelColumns + dots.width() / 2);
  if (axis.size() + 1 + end.size() <= right && range.last_batch != range.first_batch)
    axis += std::string(right - axis.size() - end.size(), ' ') + end;
  lines.push_back(axis);
  return lines;
}

}  // namespace cairn::cli

#include "terminal/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string_view>

#include "core/text/size_text.h"
#include "terminal/columns.h"
#include "terminal/terminal.h"

namespace cairn {
namespace {

constexpr int kBarColumns = 25;
constexpr int kLeastBarColumns = 5;

// Eighths of a column, for the last block of the bar.
constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};

std::string bar(double fraction, int columns) {
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * columns * 8);
  const std::string_view last = kEighths[static_cast<std::size_t>(eighths % 8)];
  const int full = eighths / 8;
  const int blank = columns - full - (last.empty() ? 0 : 1);
  std::string text;
  for (int i = 0; i < full; ++i) {
    text.append("█");
  }
  text.append(last);
  text.append(static_cast<std::size_t>(blank), ' ');
  return text;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds));
  const std::int64_t hours = whole / 3600;
  const std::string rest = fmt::format("{:02}:{:02}", whole / 60 % 60, whole % 60);
  return hours > 0 ? fmt::format("{}:{}", hours, rest) : rest;
}

std::string amount(const Progress& progress, std::int64_t count) {
  if (progress.unit != "B") return std::to_string(count);
  return size_text(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)));
}

std::string rate_text(const Progress& progress, double rate) {
  if (rate <= 0) return fmt::format("?{}/s", progress.unit);
  if (progress.unit == "B") return size_text(static_cast<std::uint64_t>(rate)) + "/s";
  if (rate < 1) return fmt::format("{:.2f}s/{}", 1 / rate, progress.unit);
  return fmt::format("{:.2f}{}/s", rate, progress.unit);
}

std::string whole_line(const Progress& progress, int bar_columns) {
  const double done = static_cast<double>(progress.n - progress.initial);
  const double rate = progress.seconds > 0 ? done / progress.seconds : 0;
  std::string text = progress.description;
  if (progress.total && *progress.total > 0) {
    const double fraction = static_cast<double>(progress.n) / static_cast<double>(*progress.total);
    text +=
        fmt::format("{:3.0f}%|{}| {}/{} ", std::floor(100 * fraction), bar(fraction, bar_columns),
                    amount(progress, progress.n), amount(progress, *progress.total));
  } else {
    text += fmt::format("{} ", amount(progress, progress.n));
  }
  text += fmt::format("[{}", clock_text(progress.seconds));
  if (progress.total && !progress.has_ended) {
    const double left = static_cast<double>(*progress.total - progress.n);
    text += fmt::format("<{}", rate > 0 ? clock_text(left / rate) : "?");
  }
  text += ", " + rate_text(progress, rate);
  for (const auto& [name, value] : progress.metrics) {
    text += fmt::format(", {}={}", name, value);
  }
  text.push_back(']');
  return text;
}

}  // namespace

std::string progress_line(const Progress& progress, int width) {
  std::string text = whole_line(progress, kBarColumns);
  if (width <= 0) return text;
  const int excess = static_cast<int>(columns_of(text)) - width;
  if (excess > 0) text = whole_line(progress, std::max(kBarColumns - excess, kLeastBarColumns));
  return shortened(text, static_cast<std::size_t>(width));
}

void draw_progress(std::ostream& out, const Progress& progress, DrawOptions options) {
  if (!options.is_terminal) {
    out << progress_line(progress, 0) << std::endl;
    return;
  }
  erase_progress(out);
  // One column less than the terminal has: a full line would wrap.
  out << progress_line(progress, terminal_width(out) - 1) << (options.stays ? "\n" : "")
      << std::flush;
}

void erase_progress(std::ostream& out) { out << "\r\x1b[K" << std::flush; }

double steady_seconds() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace cairn

#include "cli/runs/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "cli/runs/plot.h"
#include "cli/runs/thin.h"
#include "cli/view/clock_text.h"
#include "cli/view/joined.h"
#include "cli/view/table.h"
#include "core/text/printable.h"
#include "terminal/columns.h"
#include "terminal/progress_line.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kLeastColumns = 60;  // of a run beside another one
constexpr std::size_t kBetween = 3;        // columns between two runs
constexpr std::size_t kMostTextLines = 2;
constexpr std::array kPlotRows = {8, 5, 3, 0};  // the first that fits into the terminal

// The lines of one run, before they are cut to its columns.
using Block = std::vector<Cell>;

std::string state_text(const ViewedRun& run) {
  const RunStatus& status = run.status;
  if (run.is_missing) return "nothing is there yet";
  const std::string sign = ", last sign " + age_text(run.age) + " ago";
  const std::string since = status.last_sign ? " at " + local_time_text(*status.last_sign) : "";
  switch (status.state) {
    case RunState::kTraining:
      return (run.is_silent ? "silent" : "training") + sign;
    case RunState::kFinished:
    case RunState::kInterrupted:
    case RunState::kFailed:
      return name(status.state) + (run.is_awaited ? ", waiting for the next start" + sign : since);
    case RunState::kKilled:
      return std::string("killed: its process has ended") +
             (run.is_awaited ? ", waiting for the next start" : "") + sign;
    case RunState::kUnknown:
      break;
  }
  if (run.is_silent) return "silent" + sign;
  return (status.log.empty() ? "no log" : "the log does not say whether it trains") + sign;
}

Cell::Paint state_paint(const ViewedRun& run) {
  if (run.is_silent) return &Console::red;
  if (run.status.state == RunState::kFinished) return &Console::green;
  return has_ended(run.status.state) ? &Console::red : nullptr;
}

std::string progress_text(const ViewedRun& run, std::size_t columns) {
  const RunStatus& status = run.status;
  if (!status.begin || !status.last_sign) return fmt::format("batch {}", status.batch);
  const std::chrono::duration<double> spent = *status.last_sign - *status.begin;
  return progress_line({.unit = "ba",
                        .n = status.batch,
                        .total = status.total_batches,
                        .initial = status.first_batch,
                        .seconds = spent.count(),
                        .has_ended = run.is_silent || has_ended(status.state)},
                       static_cast<int>(columns));
}

std::string latest_text(const LatestValue& value) {
  return fmt::format("{} {:.4g}", value.metric, value.point.value);
}

// Adds lines with as many of the texts as have room in two lines.
void add_texts(Block& block, const std::vector<std::string>& texts, std::size_t columns) {
  constexpr std::size_t kMore = std::string_view(" and 9999 more").size();
  std::size_t next = 0;
  for (std::size_t line = 0; line < kMostTextLines && next < texts.size(); ++line) {
    std::size_t rest = 0;  // the width of all that are left
    for (std::size_t i = next; i < texts.size(); ++i)
      rest += columns_of(texts[i]) + (i == next ? 0 : 2);
    const bool needs_more = line + 1 == kMostTextLines && rest > columns;
    const std::size_t room = needs_more ? columns - std::min(columns, kMore) : columns;
    std::string text = shortened(texts[next++], room);
    while (next < texts.size()) {
      const std::size_t comma = next + 1 < texts.size() ? 1 : 0;  // at the end of the line
      if (columns_of(text) + 2 + columns_of(texts[next]) + comma > room) break;
      text += ", " + texts[next++];
    }
    if (next < texts.size() && line + 1 < kMostTextLines && columns_of(text) < room) text += ",";
    block.emplace_back(std::move(text), &Console::dim);
  }
  if (next < texts.size()) block.back().text += fmt::format(" and {} more", texts.size() - next);
}

// 0: people look at it first.
int rank_of(const std::string& metric) {
  if (is_shown_first(metric)) return 0;
  return is_shown_last(metric) ? 2 : 1;
}

// All except the main one. Those that people look at first are in front.
std::vector<std::string> value_texts(const RunStatus& status) {
  std::vector<std::string> texts;
  const LatestValue* const main = main_value(status);
  for (const int rank : {0, 1, 2}) {
    for (const LatestValue& value : status.values) {
      if (&value != main && rank_of(value.metric) == rank) texts.push_back(latest_text(value));
    }
  }
  return texts;
}

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t end = text.find(", "); end != std::string_view::npos; end = text.find(", ")) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 2);
  }
  parts.emplace_back(text);
  return parts;
}

// The lowest and the highest value of each group of neighbours, so that no spike is missed.
std::vector<MetricPoint> extremes(const std::vector<MetricPoint>& points, std::size_t most) {
  const ThinCurve curve = thin(points, most);
  if (curve.lows.empty()) return points;
  std::vector<MetricPoint> some;
  for (std::size_t i = 0; i < curve.lows.size(); ++i) {
    some.push_back({curve.batches[i], curve.lows[i]});
    some.push_back({curve.batches[i], curve.highs[i]});
  }
  return some;
}

void add_plot(Block& block, const ViewedRun& run, std::size_t columns, int rows) {
  constexpr std::size_t kLeast = 20;  // PlotSize::columns
  if (run.curve == nullptr || rows == 0 || columns < kLeast) return;
  const std::vector<MetricPoint> points = extremes(*run.curve, 4 * columns);
  PlotRange range;
  range.include(points);
  if (range.is_empty()) return;
  for (std::string& line :
       plot(points, range, {.columns = static_cast<int>(columns), .rows = rows}))
    block.emplace_back(std::move(line));
}

std::string checkpoint_text(const RunStatus& status, const Console& console) {
  if (status.checkpoints == 0) return "no checkpoint yet";
  if (!status.newest)
    return fmt::format("{} checkpoints, none of the newest is good", status.checkpoints);
  const ListedCheckpoint& newest = *status.newest;
  std::string text = newest.name;
  if (newest.modified != LogTime()) text += "  " + local_time_text(newest.modified);
  if (newest.bytes > 0) text += "  " + console.bytes(newest.bytes);
  return text + fmt::format("  ({} in all)", status.checkpoints);
}

std::string left_out_text(const RunStatus& status) {
  return fmt::format("{} folders that changed less recently were not looked into",
                     status.folders_left_out);
}

// "3 saved, 1 failed, 2 uploaded". Empty: no message says anything of saves.
std::string saves_text(const SaveCounts& saves) {
  std::vector<std::string> parts;
  if (saves.saved > 0) parts.push_back(fmt::format("{} saved", saves.saved));
  if (saves.failed > 0) parts.push_back(fmt::format("{} failed", saves.failed));
  if (saves.uploaded > 0) parts.push_back(fmt::format("{} uploaded", saves.uploaded));
  return joined(parts);
}

Block block_of(const ViewedRun& run, std::size_t columns, int plot_rows, const Console& console) {
  const RunStatus& status = run.status;
  Block block = {{status.name}, {state_text(run), state_paint(run)}};
  if (!run.is_missing) {
    block.emplace_back(progress_text(run, columns));
    if (const LatestValue* const value = main_value(status)) {
      block.emplace_back(latest_text(*value) + fmt::format(" at batch {}", value->point.batch));
      add_plot(block, run, columns, plot_rows);
    }
    add_texts(block, value_texts(status), columns);
    block.emplace_back(checkpoint_text(status, console));
    if (status.folders_left_out > 0) block.emplace_back(left_out_text(status), &Console::red);
    if (const std::string saves = saves_text(status.saves); !saves.empty())
      block.emplace_back(saves, status.saves.failed > 0 ? &Console::red : nullptr);
    if (!status.times.empty()) add_texts(block, parts_of(status.times), columns);
  }
  if (!status.problem.empty())
    block.emplace_back("not seen just now: " + status.problem, &Console::red);
  for (Cell& cell : block)
    cell.text = shortened(printable_line(cell.text), columns);
  return block;
}

std::string painted(const Cell& cell, const Console& console) {
  return cell.paint == nullptr || cell.text.empty() ? cell.text : (console.*cell.paint)(cell.text);
}

// A row of blocks beside one another.
void add_row(std::vector<std::string>& lines, const std::vector<Block>& row, std::size_t columns,
             const Console& console) {
  std::size_t height = 0;
  for (const Block& block : row)
    height = std::max(height, block.size());
  for (std::size_t i = 0; i < height; ++i) {
    std::string line;
    std::size_t width = 0;  // of the line without colours
    for (std::size_t at = 0; at < row.size(); ++at) {
      if (i >= row[at].size() || row[at][i].text.empty()) continue;
      const std::size_t begin = at * (columns + kBetween);
      line += std::string(begin - width, ' ') + painted(row[at][i], console);
      width = begin + columns_of(row[at][i].text);
    }
    lines.push_back(std::move(line));
  }
}

// A run that someone should look after.
bool needs_a_look(const ViewedRun* run) {
  const RunState state = run->status.state;
  return run->is_silent || !run->status.problem.empty() ||
         (has_ended(state) && state != RunState::kFinished);
}

// At most `most` lines, except that the first runs always have theirs. If there is no room for all
// runs, the last line says how many are left out.
std::vector<std::string> lines_of(const std::vector<const ViewedRun*>& runs, std::size_t columns,
                                  int plot_rows, std::size_t most, const Console& console) {
  const std::size_t fitting =
      std::max<std::size_t>((columns + kBetween) / (kLeastColumns + kBetween), 1);
  const std::size_t beside = std::clamp<std::size_t>(runs.size(), 1, fitting);
  const std::size_t each = (columns - (beside - 1) * kBetween) / beside;
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < runs.size(); begin += beside) {
    const std::size_t end = std::min(begin + beside, runs.size());
    std::vector<Block> row;
    for (std::size_t i = begin; i < end; ++i)
      row.push_back(block_of(*runs[i], each, plot_rows, console));
    std::vector<std::string> added;
    if (begin > 0) added.emplace_back();
    add_row(added, row, each, console);
    const std::size_t needed = lines.size() + added.size() + (end < runs.size() ? 1 : 0);
    if (begin > 0 && needed > most) {
      lines.push_back(
          cut_to_columns(fmt::format("and {} more runs", runs.size() - begin), columns));
      break;
    }
    std::ranges::move(added, std::back_inserter(lines));
  }
  return lines;
}

std::vector<const ViewedRun*> pointers_to(const std::vector<ViewedRun>& runs) {
  std::vector<const ViewedRun*> pointers;
  for (const ViewedRun& run : runs)
    pointers.push_back(&run);
  return pointers;
}

// A line that fills the terminal may wrap.
std::size_t columns_in(TerminalSize size) {
  return static_cast<std::size_t>(std::max(size.columns - 1, 1));
}
std::size_t rows_of(TerminalSize size) { return static_cast<std::size_t>(std::max(size.rows, 2)); }

}  // namespace

std::vector<std::string> view_of(const std::vector<ViewedRun>& runs, TerminalSize size,
                                 const Console& console) {
  const std::size_t columns = columns_in(size);
  const std::vector<const ViewedRun*> all = pointers_to(runs);
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  std::vector<std::string> lines;
  for (const int plot_rows : kPlotRows) {
    lines = lines_of(all, columns, plot_rows, kAny, console);
    if (lines.size() < rows_of(size)) break;
  }
  return lines;
}

std::vector<std::string> fitting_view_of(const std::vector<ViewedRun>& runs, TerminalSize size,
                                         const Console& console) {
  std::vector<std::string> lines = view_of(runs, size, console);
  if (lines.size() < rows_of(size)) return lines;
  std::vector<const ViewedRun*> ordered = pointers_to(runs);
  std::ranges::stable_partition(ordered, needs_a_look);
  return lines_of(ordered, columns_in(size), kPlotRows.back(), rows_of(size) - 1, console);
}

std::string line_of(const ViewedRun& run) {
  const RunStatus& status = run.status;
  std::string text = status.name + ": " + state_text(run);
  if (!run.is_missing) text += fmt::format(", batch {}", status.batch);
  if (status.total_batches) text += fmt::format(" of {}", *status.total_batches);
  if (const LatestValue* const value = main_value(status)) text += ", " + latest_text(*value);
  if (status.newest) text += ", newest " + status.newest->name;
  if (status.folders_left_out > 0) text += ", " + left_out_text(status);
  if (const std::string saves = saves_text(status.saves); !saves.empty()) text += ", " + saves;
  if (!status.problem.empty()) text += ", not seen just now: " + status.problem;
  return printable_line(text);
}

std::string message_line(const RunMessage& message, const std::string& run) {
  const std::string when =
      message.time ? local_time_text(*message.time) : fmt::format("batch {}", message.batch);
  return printable_line(when + "  " + (run.empty() ? "" : run + "  ") + message.text);
}

}  // namespace cairn::cli

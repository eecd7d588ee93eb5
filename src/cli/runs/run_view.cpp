#include "cli/runs/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cli/runs/plot.h"
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
      return "finished" + since;
    case RunState::kInterrupted:
      return "interrupted or failed" + since;
    case RunState::kKilled:
      return "killed: its process has ended" + sign;
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

std::string progress_text(const RunStatus& status) {
  if (!status.begin || !status.last_sign) return fmt::format("batch {}", status.batch);
  const std::chrono::duration<double> spent = *status.last_sign - *status.begin;
  return progress_line({.unit = "ba",
                        .n = status.batch,
                        .total = status.total_batches,
                        .initial = status.first_batch,
                        .seconds = spent.count()},
                       0);
}

std::string value_text(const LatestValue& value) {
  return fmt::format("{} {:.4g}", value.metric, value.point.value);
}

// Adds lines with as many of the texts as have room in two lines.
void add_texts(Block& block, const std::vector<std::string>& texts, std::size_t columns) {
  std::size_t next = 0;
  for (std::size_t line = 0; line < kMostTextLines && next < texts.size(); ++line) {
    std::string text = texts[next++];
    while (next < texts.size() && columns_of(text) + 2 + columns_of(texts[next]) <= columns)
      text += ", " + texts[next++];
    block.emplace_back(std::move(text), &Console::dim);
  }
  if (next < texts.size()) block.back().text += fmt::format(" and {} more", texts.size() - next);
}

// All except the main one. Those that people look at first are in front.
std::vector<std::string> value_texts(const RunStatus& status) {
  std::vector<std::string> texts;
  const LatestValue* const main = main_value(status);
  for (const bool is_first : {true, false}) {
    for (const LatestValue& value : status.values) {
      if (&value != main && is_shown_first(value.metric) == is_first)
        texts.push_back(value_text(value));
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

// Every so many points, and the last one, so that a long run costs no more than a short one.
std::vector<MetricPoint> sampled(const std::vector<MetricPoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<MetricPoint> some;
  for (std::size_t i = 0; i < most; ++i)
    some.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return some;
}

void add_plot(Block& block, const ViewedRun& run, std::size_t columns, int rows) {
  constexpr std::size_t kLeast = 20;  // PlotSize::columns
  if (run.curve == nullptr || rows == 0 || columns < kLeast) return;
  const std::vector<MetricPoint> points = sampled(*run.curve, 4 * columns);
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
    block.emplace_back(progress_text(status));
    if (const LatestValue* const value = main_value(status)) {
      block.emplace_back(value_text(*value) + fmt::format(" at batch {}", value->point.batch));
      add_plot(block, run, columns, plot_rows);
    }
    add_texts(block, value_texts(status), columns);
    block.emplace_back(checkpoint_text(status, console));
    if (const std::string saves = saves_text(status.saves); !saves.empty())
      block.emplace_back(saves, status.saves.failed > 0 ? &Console::red : nullptr);
    if (!status.times.empty()) add_texts(block, parts_of(status.times), columns);
  }
  if (!status.problem.empty())
    block.emplace_back("not seen just now: " + status.problem, &Console::red);
  for (Cell& cell : block)
    cell.text = cut_to_columns(printable_line(cell.text), columns);
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

std::vector<std::string> lines_of(const std::vector<ViewedRun>& runs, std::size_t columns,
                                  int plot_rows, const Console& console) {
  const std::size_t fitting =
      std::max<std::size_t>((columns + kBetween) / (kLeastColumns + kBetween), 1);
  const std::size_t beside = std::clamp<std::size_t>(runs.size(), 1, fitting);
  const std::size_t each = (columns - (beside - 1) * kBetween) / beside;
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < runs.size(); begin += beside) {
    if (begin > 0) lines.emplace_back();
    std::vector<Block> row;
    for (std::size_t i = begin; i < std::min(begin + beside, runs.size()); ++i)
      row.push_back(block_of(runs[i], each, plot_rows, console));
    add_row(lines, row, each, console);
  }
  return lines;
}

}  // namespace

std::vector<std::string> view_of(const std::vector<ViewedRun>& runs, TerminalSize size,
                                 const Console& console) {
  // A line that fills the terminal may wrap.
  const auto columns = static_cast<std::size_t>(std::max(size.columns - 1, 1));
  std::vector<std::string> lines;
  for (const int plot_rows : kPlotRows) {
    lines = lines_of(runs, columns, plot_rows, console);
    if (lines.size() < static_cast<std::size_t>(std::max(size.rows, 1))) break;
  }
  return lines;
}

std::string line_of(const ViewedRun& run) {
  const RunStatus& status = run.status;
  std::string text = status.name + ": " + state_text(run);
  if (!run.is_missing) text += fmt::format(", batch {}", status.batch);
  if (status.total_batches) text += fmt::format(" of {}", *status.total_batches);
  if (const LatestValue* const value = main_value(status)) text += ", " + value_text(*value);
  if (status.newest) text += ", newest " + status.newest->name;
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

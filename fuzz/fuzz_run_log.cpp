// Reads any bytes as the log of a run, and shows the run: no error but UsageError, which a log that
// is none of FileLogger gets, and no line that could move a terminal's cursor.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "cairn/error.h"

#include "cli/runs/run_log_lines.h"
#include "cli/runs/run_status.h"
#include "cli/runs/run_view.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace cairn::cli {
namespace {

RunLog read(std::string_view text) {
  RunLog log{.path = "fuzz.jsonl"};
  RunLogLines lines;
  std::size_t count = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines.read(log, text.substr(0, end));
    text.remove_prefix(end + 1);
    ++count;
  }
  if (log.entries + log.passed_over > count) std::abort();
  for (const auto& [metric, points] : log.metrics) {
    if (!std::ranges::is_sorted(points, std::ranges::less_equal(), &MetricPoint::batch))
      std::abort();
  }
  return log;
}

void show(const RunLog& log) {
  RunStatus status{.name = "run"};
  add_log(status, log, /*is_killed=*/false);
  (void)json_text(status_json(status), -1);
  std::ostringstream out;
  const Console console{.out = out, .err = out};
  const LatestValue* const value = main_value(status);
  const ViewedRun viewed{.status = status,
                         .curve = value == nullptr ? nullptr : &log.metrics.at(value->metric)};
  std::vector<std::string> lines = view_of({viewed}, {.columns = 80, .rows = 24}, console);
  lines.push_back(line_of(viewed));
  for (const RunMessage& message : log.messages)
    lines.push_back(message_line(message, "run"));
  for (const std::string& line : lines) {
    if (std::ranges::any_of(line, [](unsigned char c) { return c < ' ' || c == 0x7F; }))
      std::abort();
  }
}

}  // namespace
}  // namespace cairn::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    cairn::cli::show(cairn::cli::read({reinterpret_cast<const char*>(data), size}));
  } catch (const cairn::UsageError&) {
  }
  return 0;
}

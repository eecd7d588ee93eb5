// How a run stands, for `cairn watch` and for pages that show many runs.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/folder/list_checkpoints.h"
#include "cli/runs/run_log_lines.h"
#include "core/text/json_fwd.h"

namespace cairn::cli {

enum class RunState : std::uint8_t {
  kTraining,     // a fit() has begun, and its end is not logged
  kFinished,     // the last fit() ended
  kInterrupted,  // something asked the last fit() to stop, such as a signal
  kFailed,       // the last fit() ended with an error
  kKilled,       // the process of the last fit() has ended, and logged no end
  kUnknown,      // there is no log, or a log without events, such as CSV
};
inline constexpr std::array kRunStates = {RunState::kTraining,    RunState::kFinished,
                                          RunState::kInterrupted, RunState::kFailed,
                                          RunState::kKilled,      RunState::kUnknown};
// "training", "finished", "interrupted", "failed", "killed", "unknown".
const char* name(RunState state);
// The state of a run whose last fit() is `span`. `is_killed`: its process has ended without a word.
RunState state_of(const RunSpan& span, bool is_killed);
// Whether a run in this state will do nothing more by itself.
bool has_ended(RunState state);

struct LatestValue {
  std::string metric;
  MetricPoint point;
};

// Plain data, of a size that does not grow with the age of the run.
struct RunStatus {
  std::string name = {};  // as the user named the run, without secrets
  std::string log = {};   // path of the log; empty: there is none
  RunState state = RunState::kUnknown;
  std::int64_t batch = 0;  // the last one that the log or a checkpoint's name has
  std::optional<std::int64_t> total_batches = std::nullopt;  // at the end of the run
  std::string max_duration = {};                             // "2ep"; empty: not logged
  // The last fit(). Its batches before `first_batch` were trained by earlier ones.
  std::optional<LogTime> begin = std::nullopt;
  std::int64_t first_batch = 0;
  // When the run last wrote something, as far as times in the log and of files tell.
  std::optional<LogTime> last_sign = std::nullopt;
  std::vector<LatestValue> values = {};                   // of every metric, sorted by name
  std::optional<ListedCheckpoint> newest = std::nullopt;  // the furthest good checkpoint
  std::size_t checkpoints = 0;                            // how many the folders hold
  std::size_t folders_left_out = 0;  // folders below with checkpoints that were not looked into
  SaveCounts saves = {};             // as messages say
  std::vector<RunMessage> messages = {};  // the last few
  std::string times = {};    // the last message that says where the time went; empty: none
  std::string problem = {};  // why the run could not be looked at just now; empty: it could
};

// Fills in everything that the log says. `is_killed`: the process of the last fit() has ended.
void add_log(RunStatus& status, const RunLog& log, bool is_killed);

// Batches per second of the last fit(). nullopt: not known.
std::optional<double> batches_per_second(const RunStatus& status);
// Until the end of a run that trains, at the rate so far. nullopt: not known.
std::optional<double> seconds_left(const RunStatus& status);

// The metric that says most about a run: a training loss, else any loss, else the first metric
// that is not shown last.
// nullptr: there are no values.
const LatestValue* main_value(const RunStatus& status);

// Most people look at these metrics first. If a run has none of them, all are shown.
bool is_shown_first(const std::string& metric);
// Counters of batches, epochs and tokens say little that the progress does not.
bool is_shown_last(const std::string& metric);

// Names that come from files are values there, never keys.
Json status_json(const RunStatus& status);

}  // namespace cairn::cli

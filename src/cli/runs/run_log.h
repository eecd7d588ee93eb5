// Reads what a run has logged from the file that its FileLogger writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/view/console.h"

namespace cairn::cli {

struct MetricPoint {
  std::int64_t batch = 0;
  double value = 0;  // NaN for what JSON does not have
  bool operator==(const MetricPoint&) const = default;
};

// One fit(), from its event to the next one. In a log without events: all that has a time.
struct RunSpan {
  std::chrono::system_clock::time_point begin = {};
  std::chrono::system_clock::time_point last = {};  // the last time that is known
  std::int64_t first_batch = 0;
  std::int64_t last_batch = 0;
  std::string end = {};  // "fit_end" or "close"; empty: killed, or still training
};

struct RunMessage {
  std::int64_t batch = 0;
  std::string text;
};

struct RunLog {
  std::string path;  // of the file, without secrets, for messages
  // Sorted by batch, each batch once. If a run logged lines again after it resumed, the later
  // ones count.
  std::map<std::string, std::vector<MetricPoint>> metrics = {};
  std::map<std::string, std::string> hyperparameters = {};  // the values as JSON; the later ones
  std::vector<RunMessage> messages = {};
  std::vector<RunSpan> spans = {};
  std::size_t passed_over = 0;        // lines that are not FileLogger's
  std::size_t first_passed_over = 0;  // the number of the first of them, counted from 1
  std::string problem = {};           // of event files: the first record that was passed over
};

// Reads the log of a run: a file of FileLogger in any of its formats, or the folder of a run. In a
// folder that is the file of rank 0 (or the only log). The log may still be written: its last line
// is passed over silently if it has no end yet. Throws NotFoundError; UsageError for a file that is
// no log, or a folder with several; StorageError.
RunLog read_run_log(const std::string& place);
// Whether there is a log in a folder.
bool has_run_log(const std::string& folder);
// Says on `err` which lines were passed over, if any.
void tell_passed_over(const RunLog& log, const Console& console);

}  // namespace cairn::cli

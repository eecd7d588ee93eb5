// The contents of a run's log, and the reader of its lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

using LogTime = std::chrono::system_clock::time_point;

struct MetricPoint {
  std::int64_t batch = 0;
  double value = 0;  // NaN for what JSON does not have
  bool operator==(const MetricPoint&) const = default;
};

// How a fit() ended.
enum class SpanEnd : std::uint8_t {
  kNone,  // nothing was logged: killed, or still training; or a log without events
  kFinished,
  kInterrupted,  // something asked it to stop: a signal, a file, a time limit
  kFailed,
};

// One fit(), from its event to the next one. In a log without events: all that has a time.
struct RunSpan {
  LogTime begin = {};
  LogTime last = {};  // the last time that is known
  std::int64_t first_batch = 0;
  std::int64_t last_batch = 0;
  SpanEnd end = SpanEnd::kNone;
  bool has_begin = false;                                     // the log says that it began
  std::string max_duration = {};                              // "2ep"; empty: not logged
  std::optional<std::int64_t> dataloader_len = std::nullopt;  // batches of an epoch
};

struct RunMessage {
  std::int64_t batch = 0;
  std::string text;
  std::optional<LogTime> time = std::nullopt;
};

// How many messages say what became of a save.
struct SaveCounts {
  std::size_t saved = 0;
  std::size_t failed = 0;
  std::size_t uploaded = 0;
  bool operator==(const SaveCounts&) const = default;
};

// Lines have numbers; records of event files are named by their file and offset.
enum class LogKind : std::uint8_t { kLines, kEventFiles };

struct RunLog {
  LogKind kind = LogKind::kLines;
  std::string path = {};  // of the file, without secrets, for messages
  // Sorted by batch, each batch once. If a run logged lines again after it resumed, the later
  // ones count.
  std::map<std::string, std::vector<MetricPoint>> metrics = {};
  std::map<std::string, std::string> hyperparameters = {};  // the values as JSON; the later ones
  std::vector<RunMessage> messages = {};
  // How many messages were ever added. Never becomes less, also when the log is read anew or hides
  // messages, so it tells which ones are new.
  std::uint64_t messages_added = 0;
  SaveCounts saves = {};
  std::string times = {};  // the last message that says where the time went
  std::vector<RunSpan> spans = {};
  std::size_t entries = 0;            // lines or events that were understood
  std::size_t passed_over = 0;        // lines that are not FileLogger's, records that are no events
  std::size_t first_passed_over = 0;  // the number of the first line of them, counted from 1
  std::string problem = {};           // for event files: the first record that was passed over
};

// Adds a message at the end.
void keep_message(RunLog& log, RunMessage message);
// An empty log in place of `log`, to read the same place anew.
RunLog begun_anew(const RunLog& log);

// Adds a point in place of those from its batch on: a run that resumed logs them again. Returns
// whether the batch is before the last one that was known.
bool add_point(std::vector<MetricPoint>& points, const MetricPoint& point);
// Removes the points from a batch on.
void remove_points(std::vector<MetricPoint>& points, std::int64_t from);

// Reads a log line by line, in any format of FileLogger.
class RunLogLines {
 public:
  // Adds what the next line says to `log`. Throws UsageError if it is the first line, and the log
  // is not FileLogger's.
  void read(RunLog& log, std::string_view line);
  // Counts the next line as passed over: it is too long to be FileLogger's.
  void pass_over(RunLog& log);
  // Whether a log of FileLogger may begin with `line`, which may have no end yet.
  static bool may_begin(std::string_view line);
  // Throws UsageError if no log of FileLogger begins with `line`, which may have no end yet.
  static void check_first(const RunLog& log, std::string_view line);

 private:
  bool read_by_format(RunLog& log, std::string_view line, bool is_first);

  std::size_t count_ = 0;  // lines that were read
  // CSV has a header. An empty list: the lines are JSON.
  std::vector<std::string> columns_ = {};
};

}  // namespace cairn::cli

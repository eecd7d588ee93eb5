// What a run has logged: read from the file that its FileLogger writes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cairn::cli {

struct MetricPoint {
  std::int64_t batch = 0;
  double value = 0;  // NaN for what JSON does not have
  bool operator==(const MetricPoint&) const = default;
};

struct RunLog {
  std::string path;  // of the file, without secrets, for messages
  // Sorted by batch, each batch once. Of lines that a run logged again after it resumed, the later
  // ones count.
  std::map<std::string, std::vector<MetricPoint>> metrics = {};
  std::size_t passed_over = 0;        // lines that are not FileLogger's
  std::size_t first_passed_over = 0;  // the number of the first of them, counted from 1
};

// Reads the log of a run: a file of FileLogger in any of its formats, or the folder of a run. In a
// folder that is the file of rank 0 (or the only log). The log may still be written: its last line
// is passed over silently if it has no end yet. Throws NotFoundError; UsageError for a file that is
// no log, or a folder with several; StorageError.
RunLog read_run_log(const std::string& place);

}  // namespace cairn::cli

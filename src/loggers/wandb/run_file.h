// One run of W&B in a RecordFile: the messages that W&B's own logger writes offline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/value.h"

#include "loggers/wandb/record_file.h"

namespace cairn::wandb {

struct RunDescription {
  std::string id = {};
  std::string entity = {};
  std::string project = {};
  std::string group = {};
  std::string job_type = {};
  std::string shown_name = {};
  std::string notes = {};
  std::vector<std::string> tags = {};
  std::string host = {};
  // An earlier file has the begin of this run.
  bool is_resumed = false;
  std::int64_t first_step = 0;
};

// The file of a run, in the folder `folder` of `all`, the folder of all runs.
std::string path_of_run(const std::string& all, const std::string& folder, const std::string& id);

class RunFile {
 public:
  // A new file in a new folder of `all`. `now`: seconds since 1970. Throws StorageError.
  RunFile(const std::string& all, const RunDescription& run, double now);
  // Continues a file, which has its run's description. Throws as ContinuedFile.
  RunFile(const std::string& path, const RecordPosition& position);

  void write_config(const Dict& values);
  // `runtime`: the seconds for which the run was trained.
  void write_row(std::int64_t step, const Dict& metrics, double runtime, double now);
  void write_summary(const Dict& values);
  void write_exit(int code, double runtime);

  const std::string& path() const { return file_.path(); }
  RecordPosition position() const { return file_.position(); }

 private:
  RecordFile file_;
};

}  // namespace cairn::wandb

// One run of W&B in a RecordFile: the messages that W&B's own logger writes offline.
#pragma once

#include <string>

#include "loggers/wandb/record_file.h"
#include "loggers/wandb/run_writer.h"

namespace cairn::wandb {

// The file of a run, in the folder `folder` of `all`, the folder of all runs.
std::string path_of_run(const std::string& all, const std::string& folder, const std::string& id);

class RunFile final : public RunWriter {
 public:
  // A new file in a new folder of `all`. `now`: seconds since 1970. Throws StorageError.
  RunFile(const std::string& all, const RunDescription& run, double now);
  // Continues a file, which has its run's description. Throws as ContinuedFile.
  RunFile(const std::string& path, const RecordPosition& position);

  void write_config(const Dict& values) override;
  void write_row(const HistoryRow& row) override;
  void write_summary(const Dict& values) override;
  void write_exit(int code, double runtime) override;

  const std::string& path() const { return file_.path(); }
  RecordPosition position() const { return file_.position(); }

 private:
  RecordFile file_;
};

}  // namespace cairn::wandb

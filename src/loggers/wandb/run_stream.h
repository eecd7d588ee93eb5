// A run of W&B that goes to W&B's server while it is trained.
//
// Each entry waits in a Spool until the server has it. A resumed run sends the lines after its
// checkpoint again, with their numbers: they replace those of the killed run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/text/json.h"
#include "loggers/spool.h"
#include "loggers/wandb/run_writer.h"

namespace cairn::wandb {

class RunStream final : public RunWriter {
 public:
  // `send`: run_sender()'s. Throws StorageError if the folder of waiting entries cannot be listed.
  RunStream(RunDescription run, const Dict& config, const std::string& folder,
            std::function<void(const std::string& entry)> send);

  void write_config(const Dict& values) override;
  void write_row(const HistoryRow& row) override;
  void write_summary(const Dict& values) override;
  void write_exit(int code, double runtime) override;

  Spool& spool() { return spool_; }

 private:
  void describe();
  void send(const char* kind, const Json& content);
  void send_lines(Json files);

  const RunDescription run_;
  Json config_ = Json::object();
  Json lines_ = Json::array();     // rows that were not sent, as texts
  std::int64_t first_number_ = 0;  // of the first of them
  Json last_ = Json::object();     // what W&B adds to each row, of the last one
  Spool spool_;
};

}  // namespace cairn::wandb

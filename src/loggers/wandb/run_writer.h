// Where the rows of a run of W&B go: to a RunFile, or to a RunStream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/value.h"

#include "core/text/json_fwd.h"

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
  // The run began earlier.
  bool is_resumed = false;
  std::int64_t first_step = 0;
};

struct HistoryRow {
  std::int64_t number = 0;  // of the run's rows, from 0
  std::int64_t step = 0;
  const Dict& metrics;
  double runtime = 0;  // the seconds for which the run was trained
  double time = 0;     // seconds since 1970
};

class RunWriter {
 public:
  virtual ~RunWriter() = default;

  // Values to add.
  virtual void write_config(const Dict& values) = 0;
  // The row after the last one.
  virtual void write_row(const HistoryRow& row) = 0;
  // The last value of each metric. Rows that were written before go out at the latest now.
  virtual void write_summary(const Dict& values) = 0;
  virtual void write_exit(int code, double runtime) = 0;
};

// As W&B writes a value: the numbers that JSON does not have are texts.
Json json_of(const Value& value);

}  // namespace cairn::wandb

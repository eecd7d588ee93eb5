// The entries of MLFlowLogger as texts that a Spool keeps, and what is done with each.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "storage/trackers/mlflow/tracking.h"

namespace cairn::mlflow {

// Each is for the run with that id; "": for the run of the process that sends it.
std::string batch_entry(const std::string& run_id, const Batch& batch);
std::string status_entry(const std::string& run_id, RunStatus status, std::int64_t now_ms);
std::string artifact_entry(const std::string& run_id, const std::string& path,
                           const std::string& bytes);

class RunSender {
 public:
  // `run_id`: a run to continue; "": make `run` when the first entry is sent.
  RunSender(std::unique_ptr<Tracking> tracking, NewRun run, std::string run_id)
      : tracking_(std::move(tracking)), run_(std::move(run)), run_id_(std::move(run_id)) {}

  // By one thread. Throws StorageError, retryable() if the same call may succeed later;
  // CorruptError for a text that is no entry.
  void send(const std::string& entry);
  // The id of the run, or "" before it is made. Thread-safe.
  std::string run_id() const;

 private:
  std::string made_run();

  const std::unique_ptr<Tracking> tracking_;
  const NewRun run_;
  mutable std::mutex mutex_;  // guards run_id_
  std::string run_id_;
};

}  // namespace cairn::mlflow

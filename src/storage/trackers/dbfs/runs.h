// The runs of an MLflow tracking server, whose artifacts are Trees.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "io/threads/turns.h"
#include "storage/trackers/dbfs/workspace.h"

namespace cairn::dbfs {

struct Run {
  std::string experiment;
  std::string id;
  std::string artifact_uri;  // where the server keeps its artifacts
  // What names of its artifacts begin with: "databricks/mlflow-tracking/E/R/artifacts/".
  std::string root() const;
};

// Of both ids, or of one of them.
bool is_placeholder(const std::string& id);

// Safe from several threads.
class Runs {
 public:
  // `tracking_uri`: "databricks", "databricks://PROFILE", or an MLflow server's URL. UsageError for
  // any other.
  Runs(const DbfsOptions& options, const Outside& outside);

  // The run of these ids, of which those that are placeholders are filled in, once for all: by
  // MLFLOW_RUN_ID, or by a run that is made. UsageError when the run is of another experiment.
  Run find(const std::string& experiment, const std::string& id);
  std::shared_ptr<Tree> artifacts(const Run& run);

 private:
  Run look_up(const std::string& experiment, const std::string& id);
  Run make(const std::string& experiment);
  Run active();
  std::string find_experiment(const std::string& name);
  Run run_of(const Json& answer, const std::string& doing) const;

  bool is_databricks_ = false;
  RestServer server_;
  std::shared_ptr<RestRemote> api_;
  Turns turns_;                      // of what follows; who asks the server has it as long:
  std::map<std::string, Run> runs_;  // by "E/R" as they were given; nothing is made twice
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Tree>> trees_;  // by the run's id
};

// Artifacts of an MLflow server that passes them on (mlflow-artifacts:/...).
std::shared_ptr<Tree> proxied_artifacts(const RestServer& server, const Run& run);
// Artifacts that Databricks keeps, for which it gives signed URLs.
std::shared_ptr<Tree> signed_artifacts(const RestServer& workspace, const Run& run);

}  // namespace cairn::dbfs

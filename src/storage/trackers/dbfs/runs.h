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
  std::string artifact_uri;  // where the server keeps the run's artifacts
  // The prefix of the names of the run's artifacts: "databricks/mlflow-tracking/E/R/artifacts/".
  std::string root() const;
};

// Whether an id, of a run or an experiment, is a placeholder.
bool is_placeholder(const std::string& id);

// Thread-safe.
class Runs {
 public:
  // `tracking_uri` is "databricks", "databricks://PROFILE", or an MLflow server's URL. Throws
  // UsageError for anything else.
  Runs(const DbfsOptions& options, const Outside& outside);

  // The run with these ids. Placeholders are replaced once and for all: by MLFLOW_RUN_ID, or by a
  // new run. Throws UsageError if the run belongs to another experiment.
  Run find(const std::string& experiment, const std::string& id);
  std::shared_ptr<Tree> artifacts(const Run& run);

  // For a logger. Makes a run with the fields of `body`, and the experiment of that name if there
  // is none. make_named() does not know the runs of find().
  Run make_named(const std::string& experiment_name, Json body);
  Run get(const std::string& id) { return look_up("", id); }
  RestRemote& api() { return *api_; }

 private:
  // The id of the experiment of that name, which is made if there is none.
  std::string experiment_of(const std::string& name);
  Run look_up(const std::string& experiment, const std::string& id);
  Run make(const std::string& experiment);
  Run active();
  std::string find_experiment(const std::string& name);
  Run run_of(const Json& answer, const std::string& doing) const;

  bool is_databricks_ = false;
  RestServer server_;
  std::shared_ptr<RestRemote> api_;
  Turns turns_;                      // guards runs_; held during requests to the server
  std::map<std::string, Run> runs_;  // by "E/R" as given; ensures that nothing is made twice
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Tree>> trees_;  // by the run's id
};

// Artifacts of an MLflow server that forwards them (mlflow-artifacts:/...).
std::shared_ptr<Tree> proxied_artifacts(const RestServer& server, const Run& run);
// Artifacts that Databricks keeps, and for which it gives signed URLs.
std::shared_ptr<Tree> signed_artifacts(const RestServer& workspace, const Run& run);

}  // namespace cairn::dbfs

#include "storage/trackers/dbfs/runs.h"

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/printable.h"
#include "net/url.h"

namespace cairn::dbfs {
namespace {

constexpr const char* kApi = "/api/2.0/mlflow/";
constexpr const char* kExperimentPlaceholder = "{mlflow_experiment_id}";
constexpr const char* kRunPlaceholder = "{mlflow_run_id}";
constexpr std::string_view kDatabricks = "databricks";

// The variables of MLflow's own clients.
std::string mlflow_authorization() {
  const std::string token = environment("MLFLOW_TRACKING_TOKEN");
  const std::string user = environment("MLFLOW_TRACKING_USERNAME");
  if (!user.empty()) return basic(user, environment("MLFLOW_TRACKING_PASSWORD"));
  return token.empty() ? "" : bearer(token);
}

std::int64_t milliseconds_of(NetTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace

std::string Run::root() const {
  return "databricks/mlflow-tracking/" + experiment + "/" + id + "/artifacts/";
}

bool is_placeholder(const std::string& id) {
  return id == kExperimentPlaceholder || id == kRunPlaceholder;
}

Runs::Runs(const DbfsOptions& options, const Outside& outside) {
  const std::string uri = first_given(
      {options.tracking_uri, environment("MLFLOW_TRACKING_URI"), std::string(kDatabricks)});
  const std::string with_profile = std::string(kDatabricks) + "://";
  is_databricks_ = uri == kDatabricks || uri.starts_with(with_profile);
  if (is_databricks_) {
    DbfsOptions of_profile = options;
    if (uri.size() > with_profile.size()) of_profile.profile = uri.substr(with_profile.size());
    server_ = find_workspace(of_profile, outside);
  } else {
    const bool is_url = uri.starts_with("http://") || uri.starts_with("https://");
    if (!is_url) {
      throw UsageError("MLFLOW_TRACKING_URI must be \"databricks\" or the URL of an MLflow server");
    }
    const Url url = parse_http_url(uri, "MLFLOW_TRACKING_URI");
    const std::string authorization = mlflow_authorization();
    if (!authorization.empty() && url.scheme != "https" && !is_of_this_machine(url.host)) {
      throw UsageError(
          "MLFLOW_TRACKING_URI must begin with https:// if there is a token or a password: they "
          "would cross the network in the clear");
    }
    server_ = {.url = url,
               .authorization = fixed_authorization(authorization),
               .keys =
                   "MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
                   "MLFLOW_TRACKING_PASSWORD",
               .settings = remote_settings(outside)};
  }
  api_ = std::make_shared<RestRemote>(server_, kApi, "MLflow's ");
}

Run Runs::find(const std::string& experiment, const std::string& id) {
  if (is_placeholder(experiment) && !is_placeholder(id)) {
    throw UsageError("dbfs:/databricks/mlflow-tracking/" + experiment + "/" + id +
                     ": a run is given without its experiment; give both, or neither");
  }
  const Turn turn(turns_);
  const std::string given = experiment + "/" + id;
  const auto known = runs_.find(given);
  if (known != runs_.end()) return known->second;
  Run run;
  const std::string set = environment("MLFLOW_RUN_ID");
  if (!is_placeholder(id)) {
    run = look_up(experiment, id);
  } else if (!set.empty()) {
    run = look_up(is_placeholder(experiment) ? "" : experiment, set);
  } else if (is_placeholder(experiment)) {
    run = active();
  } else {
    run = make(experiment);
  }
  runs_[run.experiment + "/" + run.id] = run;
  return runs_[given] = run;
}

Run Runs::look_up(const std::string& experiment, const std::string& id) {
  const Run run = run_of(api_->ask({.key = "runs/get", .query = {{"run_id", id}}},
                                   "looking for the run " + id + " by"),
                         "looking for the run " + id);
  if (!experiment.empty() && run.experiment != experiment) {
    throw UsageError("MLflow's run " + id + " is of experiment " + run.experiment + ", not of " +
                     printable_line(experiment) + ": correct the path");
  }
  return run;
}

Run Runs::make(const std::string& experiment) {
  const std::string ranks = environment("WORLD_SIZE");
  if (!ranks.empty() && ranks != "1") {
    throw UsageError(
        "dbfs:/databricks/mlflow-tracking/.../{mlflow_run_id}: each of the " +
        printable_line(ranks) +
        " ranks would make a run of its own. Make one, and set MLFLOW_RUN_ID for all of them");
  }
  const Json body = {{"experiment_id", experiment}, {"start_time", milliseconds_of(api_->now())}};
  return run_of(api_->post("runs/create", body, "making a run by"), "making a run");
}

Run Runs::active() {
  return make(
      experiment_of(first_given({environment("MLFLOW_EXPERIMENT_NAME"), "mlflow-object-store"})));
}

Run Runs::make_named(const std::string& experiment_name, Json body) {
  body["experiment_id"] = experiment_of(experiment_name);
  return run_of(api_->post("runs/create", body, "making a run by"), "making a run");
}

std::string Runs::experiment_of(const std::string& name) {
  std::string experiment = find_experiment(name);
  if (!experiment.empty()) return experiment;
  const HttpResponse response =
      api_->send({.method = "POST",
                  .key = "experiments/create",
                  .headers = {{"content-type", "application/json"}},
                  .body = {json_body({{"name", name}}, "making an experiment by")}});
  // Another client may have made the experiment meanwhile. Or an earlier attempt made it, and the
  // attempt's answer was lost.
  if (!is_success(response)) experiment = find_experiment(name);
  if (!experiment.empty()) return experiment;
  return text_of(api_->read(response, "making an experiment by", "experiments/create"),
                 "experiment_id");
}

// Returns "" if there is no such experiment.
std::string Runs::find_experiment(const std::string& name) {
  const RemoteRequest request = {.key = "experiments/get-by-name",
                                 .query = {{"experiment_name", name}}};
  const HttpResponse response = api_->send(request);
  if (response.status == 404) return {};
  const std::string doing = "looking for the experiment " + printable_line(name) + " by";
  return text_of(object_of(api_->read(response, doing, request.key), "experiment"),
                 "experiment_id");
}

Run Runs::run_of(const Json& answer, const std::string& doing) const {
  const Json info = object_of(object_of(answer, "run"), "info");
  const Run run = {.experiment = text_of(info, "experiment_id"),
                   .id = text_of(info, "run_id"),
                   .artifact_uri = text_of(info, "artifact_uri")};
  if (run.experiment.empty() || run.id.empty() || run.artifact_uri.empty()) {
    throw StorageError(doing + ": MLflow's answer has no run with an artifact_uri", 200);
  }
  return run;
}

std::shared_ptr<Tree> Runs::artifacts(const Run& run) {
  const std::scoped_lock lock(mutex_);
  auto& tree = trees_[run.id];
  if (tree == nullptr) {
    tree = is_databricks_ ? signed_artifacts(server_, run) : proxied_artifacts(server_, run);
  }
  return tree;
}

}  // namespace cairn::dbfs

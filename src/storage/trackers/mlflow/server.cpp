#include <cmath>
#include <map>

#include "cairn/error.h"

#include "core/text/json.h"
#include "storage/trackers/dbfs/runs.h"
#include "storage/trackers/mlflow/tracking.h"

namespace cairn::mlflow {
namespace {

const char* status_name(RunStatus status) {
  switch (status) {
    case RunStatus::kRunning:
      return "RUNNING";
    case RunStatus::kFinished:
      return "FINISHED";
    case RunStatus::kFailed:
      return "FAILED";
  }
  return "RUNNING";
}

// Protobuf's JSON has words for the numbers that JSON lacks.
Json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json texts_json(const Texts& texts) {
  Json list = Json::array();
  for (const auto& [key, value] : texts)
    list.push_back({{"key", key}, {"value", value}});
  return list;
}

class TrackingServer final : public Tracking {
 public:
  explicit TrackingServer(const std::string& tracking_uri)
      : runs_({.tracking_uri = tracking_uri}, {}) {}

  std::string make_run(const NewRun& run) override {
    const Json body = {
        {"run_name", run.run_name}, {"start_time", run.start_ms}, {"tags", texts_json(run.tags)}};
    const dbfs::Run made = runs_.make_named(run.experiment_name, body);
    known_[made.id] = made;
    return made.id;
  }

  void log_batch(const std::string& run_id, const Batch& batch) override {
    Json metrics = Json::array();
    for (const Metric& metric : batch.metrics) {
      metrics.push_back({{"key", metric.key},
                         {"value", number_json(metric.value)},
                         {"timestamp", metric.timestamp_ms},
                         {"step", metric.step}});
    }
    runs_.api().post(
        "runs/log-batch",
        {{"run_id", run_id}, {"metrics", metrics}, {"params", texts_json(batch.params)}},
        "logging by");
  }

  void set_status(const std::string& run_id, RunStatus status, std::int64_t now_ms) override {
    Json body = {{"run_id", run_id}, {"status", status_name(status)}};
    if (status != RunStatus::kRunning) body["end_time"] = now_ms;
    runs_.api().post("runs/update", body, "updating the run by");
  }

  void put_artifact(const std::string& run_id, const std::string& path,
                    const SharedBytes& bytes) override {
    if (!known_.contains(run_id)) known_[run_id] = runs_.get(run_id);
    runs_.artifacts(known_[run_id])->put(path, bytes, /*only_new=*/false);
  }

 private:
  dbfs::Runs runs_;
  std::map<std::string, dbfs::Run> known_;  // by id
};

}  // namespace

std::unique_ptr<Tracking> tracking_server(const std::string& tracking_uri) {
  return std::make_unique<TrackingServer>(tracking_uri);
}

}  // namespace cairn::mlflow

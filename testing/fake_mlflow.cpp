// The endpoints of MLflow's REST API that loggers use.

#include <algorithm>

#include "testing/fake_trackers.h"

namespace cairn::testing {
namespace {

constexpr std::size_t kMostMetrics = 1000;
constexpr std::size_t kMostParams = 100;

HttpReply mlflow_reply(const Json& body, int status = 200) {
  return {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = body.dump()};
}

bool is_number(const Json& value) {
  return value.is_number() || value == "NaN" || value == "Infinity" || value == "-Infinity";
}

bool is_metric(const Json& metric) {
  return metric.is_object() && metric.size() == 4 && metric.contains("key") &&
         metric["key"].is_string() && metric.contains("value") && is_number(metric["value"]) &&
         metric.contains("timestamp") && metric["timestamp"].is_number_integer() &&
         metric.contains("step") && metric["step"].is_number_integer();
}

bool is_param(const Json& param) {
  return param.is_object() && param.size() == 2 && param.contains("key") &&
         param["key"].is_string() && param.contains("value") && param["value"].is_string();
}

}  // namespace

Json FakeTrackers::logged_to(const std::string& run) {
  const std::scoped_lock lock(mutex_);
  return logged_.contains(run) ? logged_[run] : Json();
}

HttpReply FakeTrackers::log_batch(const Json& body) {
  const bool has_fields = body.size() == 3 && body.contains("run_id") && body.contains("metrics") &&
                          body["metrics"].is_array() && body.contains("params") &&
                          body["params"].is_array();
  if (!has_fields) return violation("the fields of log-batch");
  if (body["metrics"].size() > kMostMetrics || body["params"].size() > kMostParams) {
    return violation("more than log-batch takes");
  }
  const std::string run = body["run_id"];
  if (!logged_.contains(run)) {
    return mlflow_reply({{"error_code", "RESOURCE_DOES_NOT_EXIST"}, {"message", "no run"}}, 404);
  }
  for (const Json& metric : body["metrics"]) {
    if (!is_metric(metric)) return violation("a metric");
  }
  for (const Json& param : body["params"]) {
    if (!is_param(param)) return violation("a parameter");
    const std::string key = param["key"];
    const Json& known = logged_[run]["params"];
    if (known.contains(key) && known[key] != param["value"]) {
      return mlflow_reply(
          {{"error_code", "INVALID_PARAMETER_VALUE"}, {"message", "a parameter changes"}}, 400);
    }
  }
  Json& metrics = logged_[run]["metrics"];
  for (const Json& metric : body["metrics"]) {
    // The same metric twice is kept once: a client may repeat a request.
    if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) {
      metrics.push_back(metric);
    }
  }
  for (const Json& param : body["params"])
    logged_[run]["params"][std::string(param["key"])] = param["value"];
  return mlflow_reply(Json::object());
}

HttpReply FakeTrackers::update_run(const Json& body) {
  const std::string status = body.value("status", "");
  const bool is_right = body.contains("run_id") &&
                        (status == "RUNNING" || status == "FINISHED" || status == "FAILED");
  if (!is_right || body.contains("end_time") == (status == "RUNNING")) {
    return violation("the fields of a run's update");
  }
  const std::string run = body["run_id"];
  if (!logged_.contains(run)) {
    return mlflow_reply({{"error_code", "RESOURCE_DOES_NOT_EXIST"}, {"message", "no run"}}, 404);
  }
  logged_[run]["status"] = status;
  return mlflow_reply({{"run_info", runs_[run]}});
}

}  // namespace cairn::testing

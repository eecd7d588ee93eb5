#include "loggers/mlflow/run_sender.h"

#include <fmt/format.h>

#include <charconv>

#include "cairn/error.h"

#include "core/text/json.h"
#include "core/text/json_text.h"

namespace cairn::mlflow {
namespace {

// An entry is a line of JSON, and then the bytes of an artifact. Numbers are texts, since JSON has
// no NaN.
std::string entry_of(Json header, const std::string& run_id, const std::string& bytes = {}) {
  header["run_id"] = run_id;
  return json_text(header, -1) + "\n" + bytes;
}

// In every locale the same.
double number_in(const std::string& text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Batch batch_of(const Json& header) {
  Batch batch;
  for (const Json& metric : header.at("metrics")) {
    batch.metrics.push_back({.key = metric.at(0),
                             .value = number_in(metric.at(1)),
                             .timestamp_ms = metric.at(2),
                             .step = metric.at(3)});
  }
  for (const Json& param : header.at("params"))
    batch.params.emplace_back(param.at(0), param.at(1));
  return batch;
}

SharedBytes bytes_after(const std::string& entry, std::size_t at) {
  const auto kept = std::make_shared<const std::string>(entry.substr(at));
  return {as_bytes(*kept), kept};
}

}  // namespace

std::string batch_entry(const std::string& run_id, const Batch& batch) {
  Json header = {{"metrics", Json::array()}, {"params", Json::array()}};
  for (const Metric& metric : batch.metrics) {
    header["metrics"].push_back(
        {metric.key, fmt::format("{}", metric.value), metric.timestamp_ms, metric.step});
  }
  for (const auto& [key, value] : batch.params)
    header["params"].push_back({key, value});
  return entry_of(header, run_id);
}

std::string status_entry(const std::string& run_id, RunStatus status, std::int64_t now_ms) {
  return entry_of({{"status", static_cast<int>(status)}, {"now_ms", now_ms}}, run_id);
}

std::string artifact_entry(const std::string& run_id, const std::string& path,
                           const std::string& bytes) {
  return entry_of({{"artifact", path}}, run_id, bytes);
}

void RunSender::send(const std::string& entry) {
  const std::size_t end = std::min(entry.find('\n'), entry.size());
  const Json header = Json::parse(entry.substr(0, end), nullptr, /*allow_exceptions=*/false);
  try {
    const std::string given = header.at("run_id");
    const std::string run_id = given.empty() ? made_run() : given;
    if (header.contains("artifact")) {
      tracking_->put_artifact(run_id, header["artifact"], bytes_after(entry, end + 1));
    } else if (header.contains("status")) {
      const int status = header["status"];
      tracking_->set_status(run_id, static_cast<RunStatus>(status), header.at("now_ms"));
    } else {
      tracking_->log_batch(run_id, batch_of(header));
    }
  } catch (const Json::exception& error) {
    throw CorruptError(std::string("an entry for MLflow is damaged: ") + error.what());
  }
}

std::string RunSender::made_run() {
  const std::string known = run_id();
  if (!known.empty()) return known;
  const std::string made = tracking_->make_run(run_);
  const std::scoped_lock lock(mutex_);
  return run_id_ = made;
}

std::string RunSender::run_id() const {
  const std::scoped_lock lock(mutex_);
  return run_id_;
}

}  // namespace cairn::mlflow

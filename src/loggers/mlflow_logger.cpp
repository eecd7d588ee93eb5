#include "cairn/loggers/mlflow_logger.h"

#include <fnmatch.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "core/environment.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "loggers/images/pixels.h"
#include "loggers/logged_number.h"
#include "loggers/mlflow/run_sender.h"
#include "loggers/spool.h"
#include "value/plain_json.h"

namespace cairn {
namespace {

constexpr const char* kDefaultExperiment = "my-mlflow-experiment";  // Composer's
constexpr const char* kDefaultFolder = "mlruns";                    // MLflow's
constexpr std::string_view kDatabricksUri = "databricks";
constexpr std::string_view kFileScheme = "file:";
constexpr std::size_t kLongestParam = 6000;  // bytes; MLflow refuses longer ones

bool is_server(const std::string& uri) {
  return uri.starts_with(kDatabricksUri) || uri.starts_with("http://") ||
         uri.starts_with("https://");
}

std::string folder_of_uri(const std::string& uri) {
  if (uri.starts_with(kFileScheme)) {
    std::string path = uri.substr(kFileScheme.size());
    if (path.starts_with("//")) path.erase(0, 2);
    return path;
  }
  if (uri.find("://") == std::string::npos) return uri;
  throw UsageError(
      "MLFlowLogger: tracking_uri is a folder, the URL of a server or \"databricks\", "
      "not " +
      uri);
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

void write_run_id(const std::string& path, const std::string& id) {
  AtomicFile file(posix_file_system(), path, {});
  file.write(as_bytes(id));
  file.commit();
}

// "" if there is no such file.
std::string read_run_id(const std::string& path) {
  if (!posix_file_system().stat(path)) return {};
  const auto source = posix_file_system().open(path);
  return std::string(as_text(source->view(0, source->size()).view));
}

// The last logged value of a metric.
struct LastValue {
  double value = 0;
  std::int64_t step = 0;
};

}  // namespace

struct MLFlowLogger::Impl {
  MLFlowLoggerOptions options;
  bool is_enabled = false;
  std::string tracking_uri;
  mlflow::NewRun run;
  std::string spool_folder;
  std::string trained_run;  // the Trainer's run_name
  std::string resumed_id;   // of the run to continue
  // Made when the first entry is sent: by then the checkpoint has been loaded.
  std::shared_ptr<mlflow::RunSender> sender;
  std::unique_ptr<Spool> spool;  // null for a folder
  std::size_t not_written = 0;   // to a folder
  std::string write_error;
  mlflow::Batch batch;  // not sent yet
  std::chrono::system_clock::time_point flushed = {};
  std::map<std::string, LastValue> last;

  std::int64_t now_ms() const {
    const auto since_1970 = options.now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
  }

  // The server may answer after the first checkpoint was saved: this file has the id then.
  std::string id_path() const { return join_path(spool_folder, "run_id"); }
  void connect() {
    if (sender) return;
    auto tracking = is_server(tracking_uri) ? mlflow::tracking_server(tracking_uri)
                                            : mlflow::tracking_folder(folder_of_uri(tracking_uri));
    const auto made = std::make_shared<mlflow::RunSender>(std::move(tracking), run, resumed_id);
    if (is_server(tracking_uri)) {
      const auto send = [to = made, noted = std::string(),
                         path = id_path()](const std::string& entry) mutable {
        to->send(entry);
        const std::string id = to->run_id();
        if (noted == id) return;
        try {
          write_run_id(path, id);
          noted = id;
        } catch (const StorageError&) {
          return;  // after the next entry it may work
        }
      };
      spool = std::make_unique<Spool>(SpoolOptions{.folder = spool_folder, .send = send});
    }
    sender = made;
    if (!resumed_id.empty()) send_status(mlflow::RunStatus::kRunning);
  }
  // A full disk does not end training, either.
  void send(const std::string& entry) {
    if (spool) return spool->add(entry);
    try {
      sender->send(entry);
    } catch (const Error& error) {
      ++not_written;
      write_error = error.what();
    }
  }
  void send_status(mlflow::RunStatus status) {
    send(mlflow::status_entry(sender->run_id(), status, now_ms()));
  }
  void send_artifact(const std::string& path, const std::string& bytes) {
    connect();
    send(mlflow::artifact_entry(sender->run_id(), path, bytes));
  }
  void flush() {
    if (!is_enabled) return;
    flushed = options.now();
    if (batch.metrics.empty() && batch.params.empty()) return;
    connect();
    // A server that refuses a parameter, because it has another value, refuses the whole request.
    const mlflow::Texts params = std::exchange(batch.params, {});
    for (auto next = params.begin(); next != params.end();) {
      const auto left = static_cast<std::size_t>(params.end() - next);
      const auto end = next + static_cast<std::ptrdiff_t>(std::min(left, mlflow::kMostParams));
      send(mlflow::batch_entry(sender->run_id(), {.params = {next, end}}));
      next = end;
    }
    if (!batch.metrics.empty()) send(mlflow::batch_entry(sender->run_id(), batch));
    batch = {};
  }
  void flush_if_due() {
    if (options.now() - flushed >= options.flush_interval) flush();
  }
  bool is_repeated(const std::string& name, double value, std::int64_t step) {
    const auto found = last.find(name);
    if (found != last.end() && found->second.value == value &&
        step < found->second.step + options.log_duplicated_metric_every_n_steps) {
      return true;
    }
    last[name] = {value, step};
    return false;
  }
  void log_problems(Logger& logger) const {
    if (spool) return finish(*spool, options.upload_timeout, "MLFlowLogger", logger);
    if (not_written == 0) return;
    logger.log_message("warning: MLFlowLogger: " + std::to_string(not_written) +
                       " entries were not written; the last error: " + write_error);
  }
};

MLFlowLogger::MLFlowLogger(MLFlowLoggerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  if (!impl_->options.now) impl_->options.now = [] { return std::chrono::system_clock::now(); };
}
MLFlowLogger::~MLFlowLogger() = default;
MLFlowLogger::MLFlowLogger(MLFlowLogger&&) noexcept = default;
MLFlowLogger& MLFlowLogger::operator=(MLFlowLogger&&) noexcept = default;

void MLFlowLogger::init(State& state, Logger& /*logger*/) {
  const MLFlowLoggerOptions& options = impl_->options;
  impl_->is_enabled = !options.rank_zero_only || dist::rank() == 0;
  impl_->trained_run = state.run_name;
  if (!impl_->is_enabled) return;
  const bool has_databricks = !environment("DATABRICKS_TOKEN").empty();
  impl_->tracking_uri =
      first_given({options.tracking_uri.value_or(""), environment("MLFLOW_TRACKING_URI"),
                   has_databricks ? "databricks" : kDefaultFolder});
  mlflow::NewRun& run = impl_->run;
  run.experiment_name = first_given({options.experiment_name.value_or(""),
                                     environment("MLFLOW_EXPERIMENT_NAME"), kDefaultExperiment});
  if (impl_->tracking_uri.starts_with(kDatabricksUri) && !run.experiment_name.starts_with("/")) {
    throw UsageError(
        "MLFlowLogger: on Databricks experiment_name begins with \"/Users/YOU/\" or "
        "\"/Shared/\", unlike \"" +
        run.experiment_name + "\"");
  }
  run.run_name = options.run_name.value_or(state.run_name);
  if (!options.rank_zero_only) run.run_name += "-rank" + std::to_string(dist::rank());
  run.start_ms = impl_->now_ms();
  run.tags = {options.tags.begin(), options.tags.end()};
  run.tags.emplace_back("run_name", state.run_name);
  if (options.run_group) run.tags.emplace_back("run_group", *options.run_group);
  impl_->resumed_id = environment("MLFLOW_RUN_ID");
  impl_->spool_folder =
      strict_format(NameFormat(options.spool_folder), dist_variables(state.run_name));
  impl_->flushed = options.now();
  // Wrong addresses and missing keys end the start, not the first batch.
  if (is_server(impl_->tracking_uri)) {
    mlflow::tracking_server(impl_->tracking_uri);
  } else {
    folder_of_uri(impl_->tracking_uri);
  }
}

void MLFlowLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  if (!impl_->is_enabled) return;
  const std::int64_t now = impl_->now_ms();
  for (const auto& [key, value] : metrics) {
    const std::string& name = key.as_str();
    const auto number = logged_number(value);
    if (!number || matches_any(impl_->options.ignore_metrics, name)) continue;
    if (impl_->is_repeated(name, *number, step)) continue;
    const auto renamed = impl_->options.rename_metrics.find(name);
    const bool is_renamed = renamed != impl_->options.rename_metrics.end();
    impl_->batch.metrics.push_back({.key = mlflow::valid_key(is_renamed ? renamed->second : name),
                                    .value = *number,
                                    .timestamp_ms = now,
                                    .step = step});
    if (impl_->batch.metrics.size() == mlflow::kMostMetrics) impl_->flush();
  }
}

void MLFlowLogger::log_hyperparameters(const Dict& hyperparameters) {
  if (!impl_->is_enabled) return;
  for (const auto& [key, value] : hyperparameters) {
    const std::string& name = key.as_str();
    if (matches_any(impl_->options.ignore_hyperparameters, name)) continue;
    const std::string text = value.is_str() ? value.as_str() : format_log_value(value);
    impl_->batch.params.emplace_back(mlflow::valid_key(name), text.substr(0, kLongestParam));
  }
}

void MLFlowLogger::log_table(const LoggedTable& table, std::int64_t step) {
  if (!impl_->is_enabled) return;
  OrderedJson rows = OrderedJson::array();
  for (const List& row : table.rows)
    rows.push_back(OrderedJson(plain_json(row, NoJson::kNull)));
  const OrderedJson json = {{"columns", table.columns}, {"data", rows}};
  const std::string name = table.name + "_step_" + std::to_string(step);
  impl_->send_artifact(mlflow::valid_key(name) + ".json", json_text(json, -1));
}

void MLFlowLogger::log_images(const LoggedImages& images, std::int64_t step) {
  if (!impl_->is_enabled) return;
  int number = 0;
  for (const PixelImage& image : pixels_of(images.images, images.channels_last)) {
    const std::string name =
        images.name + "_" + std::to_string(number++) + "_step_" + std::to_string(step) + ".png";
    impl_->send_artifact("images/" + mlflow::valid_key(name), png_of(image));
  }
}

// By now the checkpoint has been loaded.
void MLFlowLogger::fit_start(State& /*state*/, Logger& /*logger*/) { impl_->flush(); }
void MLFlowLogger::batch_end(State& /*state*/, Logger& logger) {
  impl_->flush_if_due();
  if (impl_->spool != nullptr) log_warning(*impl_->spool, "MLFlowLogger", logger);
}
void MLFlowLogger::eval_end(State& /*state*/, Logger& /*logger*/) { impl_->flush_if_due(); }
void MLFlowLogger::fit_end(State& /*state*/, Logger& /*logger*/) { impl_->flush(); }

void MLFlowLogger::close(State& /*state*/, Logger& logger) {
  impl_->flush();
  if (!impl_->sender) return;
  const bool has_failed = std::uncaught_exceptions() > 0;
  impl_->send_status(has_failed ? mlflow::RunStatus::kFailed : mlflow::RunStatus::kFinished);
  impl_->log_problems(logger);
  impl_->resumed_id = impl_->sender->run_id();
  impl_->spool.reset();
  impl_->sender.reset();
}

std::string MLFlowLogger::run_id() const {
  return impl_->sender ? impl_->sender->run_id() : impl_->resumed_id;
}

Value MLFlowLogger::state_dict() const {
  if (impl_->sender) impl_->flush();  // a kill loses nothing from before the checkpoint
  return Dict{{"run_name", impl_->trained_run}, {"run_id", run_id()}};
}

void MLFlowLogger::load_state_dict(const Value& state) {
  const Value* id = state.find("run_id");
  const Value* run_name = state.find("run_name");
  if (id == nullptr && run_name == nullptr) return;  // Composer's state is empty.
  if (!impl_->is_enabled) return;
  if (id == nullptr || !id->is_str() || run_name == nullptr || !run_name->is_str()) {
    throw MismatchError("MLFlowLogger's state has two texts, \"run_name\" and \"run_id\"");
  }
  // A run that begins with another run's weights is a run of its own.
  const bool is_same = run_name->as_str() == impl_->trained_run;
  if (!is_same || !environment("MLFLOW_RUN_ID").empty()) return;
  // The state is rank 0's; other ranks have runs of their own.
  const bool is_own = dist::rank() == 0 && !id->as_str().empty();
  impl_->resumed_id = is_own ? id->as_str() : read_run_id(impl_->id_path());
}

}  // namespace cairn

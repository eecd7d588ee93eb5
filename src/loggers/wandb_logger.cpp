#include "cairn/loggers/wandb_logger.h"

#include <fmt/chrono.h>

#include <exception>
#include <map>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "core/environment.h"
#include "core/protobuf.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "io/machine.h"
#include "loggers/cut_file.h"
#include "loggers/wandb/datastore.h"
#include "value/plain_json.h"

namespace cairn {
namespace {

constexpr std::size_t kMostRows = 100;
// The fields of wandb_internal.proto's Record.
constexpr int kHistoryRecord = 2;
constexpr int kSummaryRecord = 3;
constexpr int kConfigRecord = 5;
constexpr int kRunRecord = 17;
constexpr int kExitRecord = 18;
constexpr int kHeaderRecord = 21;

std::string given_or_variable(const std::optional<std::string>& given, const char* variable) {
  return given ? *given : environment(variable);
}

// {key, value_json}: an item of a history, a summary or a config.
ProtoMessage item(const std::string& key, const Json& value) {
  return ProtoMessage().text(1, key).text(16, json_text(value, -1));
}

// NaN and infinities are null.
ProtoMessage metric_item(const std::string& key, const Value& value) {
  return item(key, plain_json(value, NoJson::kNull));
}

std::string date_of(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y%m%d_%H%M%S}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

double seconds_of_time(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

struct WandbRow {
  Dict metrics;
  double timestamp = 0;
};

// Where a checkpoint was saved.
struct WandbPosition {
  std::string run_name;
  std::string run_id;
  std::string path;  // below dir; empty: before the first record
  std::uint64_t bytes = 0;
};

}  // namespace

struct WandBLogger::Impl {
  WandBLoggerOptions options;
  bool is_enabled = false;
  std::string trained_run;  // the Trainer's run_name
  std::string run_name;     // in W&B
  std::string group;
  std::string run_id;
  bool is_resumed = false;
  std::optional<WandbPosition> loaded;
  std::optional<WandbFile> file;
  std::string below;  // the file's path below dir
  double start = 0;
  std::map<std::int64_t, WandbRow> rows;  // by step, not written yet
  Dict config;                            // not written yet
  Dict summary;

  void append(int field, const ProtoMessage& content) {
    open().append(ProtoMessage().message(field, content));
  }
  WandbFile& open() {
    if (file) return *file;
    const auto now = options.now();
    start = seconds_of_time(now);
    below = "wandb/offline-run-" + date_of(now) + "-" + run_id + "/run-" + run_id + ".wandb";
    const std::string root = first_text(options.dir, "WANDB_DIR", ".");
    // Another start in the same second has a folder of its own.
    std::string path = join_path(root, below);
    for (int number = 1; posix_file_system().stat(path); ++number) {
      below = "wandb/offline-run-" + date_of(now + std::chrono::seconds(number)) + "-" + run_id +
              "/run-" + run_id + ".wandb";
      path = join_path(root, below);
    }
    file.emplace(path);
    const ProtoMessage version = ProtoMessage().text(1, "0.17.0").text(2, "0.12.0");
    file->append(ProtoMessage().message(kHeaderRecord, ProtoMessage().message(1, version)));
    file->append(ProtoMessage().message(kRunRecord, run_record(now)));
    return *file;
  }
  static std::string first_text(const std::optional<std::string>& given, const char* variable,
                                const std::string& otherwise) {
    const std::string text = given_or_variable(given, variable);
    return text.empty() ? otherwise : text;
  }
  ProtoMessage run_record(std::chrono::system_clock::time_point now) const {
    ProtoMessage record;
    record.text(1, run_id)
        .text(2, given_or_variable(options.entity, "WANDB_ENTITY"))
        .text(3, given_or_variable(options.project, "WANDB_PROJECT"))
        .text(6, group)
        .text(8, run_name);
    for (const std::string& tag : options.tags)
      record.text(10, tag);
    const auto seconds = std::chrono::system_clock::to_time_t(now);
    return record.text(13, node_name())
        .message(17, ProtoMessage().integer(1, seconds))
        .integer(18, is_resumed ? 1 : 0);
  }

  void write_row(std::int64_t step, const WandbRow& row) {
    open();
    ProtoMessage history;
    for (const auto& [key, value] : row.metrics)
      history.message(1, metric_item(key.as_str(), value));
    history.message(1, item("_step", step))
        .message(1, item("_timestamp", row.timestamp))
        .message(1, item("_runtime", row.timestamp - start))
        .message(2, ProtoMessage().integer(1, step));
    append(kHistoryRecord, history);
  }
  void write_rows(std::size_t most_left = 0) {
    if (!config.empty()) {
      ProtoMessage update;
      for (const auto& [key, value] : std::exchange(config, {}))
        update.message(1, item(key.as_str(), Json(plain_json(value))));
      append(kConfigRecord, update);
    }
    for (; rows.size() > most_left; rows.erase(rows.begin()))
      write_row(rows.begin()->first, rows.begin()->second);
  }
};

WandBLogger::WandBLogger(WandBLoggerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  if (!impl_->options.now) impl_->options.now = [] { return std::chrono::system_clock::now(); };
}
WandBLogger::~WandBLogger() = default;
WandBLogger::WandBLogger(WandBLogger&&) noexcept = default;
WandBLogger& WandBLogger::operator=(WandBLogger&&) noexcept = default;

void WandBLogger::init(State& state, Logger& /*logger*/) {
  const WandBLoggerOptions& options = impl_->options;
  impl_->is_enabled = !options.rank_zero_only || dist::rank() == 0;
  impl_->trained_run = state.run_name;
  impl_->run_name = options.name.value_or(state.run_name);
  impl_->group = given_or_variable(options.group, "WANDB_RUN_GROUP");
  if (!options.rank_zero_only) {
    if (impl_->group.empty()) impl_->group = impl_->run_name;
    impl_->run_name += "-rank" + std::to_string(dist::rank());
  }
  const std::string given = environment("WANDB_RUN_ID");
  impl_->run_id = given.empty() ? random_digits() : given;
}

void WandBLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  if (!impl_->is_enabled) return;
  WandbRow& row = impl_->rows[step];
  row.timestamp = seconds_of_time(impl_->options.now());
  for (const auto& [key, value] : metrics) {
    row.metrics.set(key, value);
    impl_->summary.set(key, value);
  }
}

void WandBLogger::log_hyperparameters(const Dict& hyperparameters) {
  if (!impl_->is_enabled) return;
  for (const auto& [key, value] : hyperparameters)
    impl_->config.set(key, value);
}

// Not when the state is loaded: a program that only evaluates a checkpoint leaves the log of the
// training after it as it is.
void WandBLogger::fit_start(State& /*state*/, Logger& /*logger*/) {
  const auto position = std::exchange(impl_->loaded, std::nullopt);
  if (!position || !impl_->is_enabled || position->path.empty()) return;
  const std::string root = Impl::first_text(impl_->options.dir, "WANDB_DIR", ".");
  cut_file(join_path(root, position->path), position->bytes);
}

void WandBLogger::batch_end(State& /*state*/, Logger& /*logger*/) {
  if (impl_->rows.size() > kMostRows) impl_->write_rows(kMostRows / 2);
}
void WandBLogger::epoch_end(State& /*state*/, Logger& /*logger*/) { impl_->write_rows(1); }
void WandBLogger::eval_end(State& /*state*/, Logger& /*logger*/) { impl_->write_rows(1); }
void WandBLogger::fit_end(State& /*state*/, Logger& /*logger*/) { impl_->write_rows(1); }

void WandBLogger::close(State& /*state*/, Logger& /*logger*/) {
  if (!impl_->is_enabled) return;
  impl_->write_rows();
  ProtoMessage summary;
  for (const auto& [key, value] : impl_->summary)
    summary.message(1, metric_item(key.as_str(), value));
  impl_->append(kSummaryRecord, summary);
  const int exit_code = std::uncaught_exceptions() > 0 ? 1 : 0;
  impl_->append(kExitRecord, ProtoMessage().integer(1, exit_code));
  impl_->is_enabled = false;
}

std::string WandBLogger::run_id() const { return impl_->run_id; }
std::string WandBLogger::path() const { return impl_->file ? impl_->file->path() : ""; }

Value WandBLogger::state_dict() const {
  // A load asks for the state, too, before it gives the run its id. Nothing is logged by then.
  if (!impl_->rows.empty() || impl_->file) impl_->write_rows();
  return Dict{{"run_name", impl_->trained_run},
              {"run_id", impl_->run_id},
              {"path", impl_->file ? impl_->below : ""},
              {"bytes", impl_->file ? static_cast<std::int64_t>(impl_->file->bytes()) : 0}};
}

void WandBLogger::load_state_dict(const Value& state) {
  const Value* run_name = state.find("run_name");
  if (run_name == nullptr) return;  // Composer's state is empty.
  const Value* id = state.find("run_id");
  const Value* path = state.find("path");
  const Value* bytes = state.find("bytes");
  if (!run_name->is_str() || id == nullptr || !id->is_str() || path == nullptr || !path->is_str() ||
      bytes == nullptr || !bytes->is_int() || bytes->as_int() < 0) {
    throw MismatchError(
        "WandBLogger's state has texts \"run_name\", \"run_id\" and \"path\", and a number "
        "\"bytes\"");
  }
  // A run that begins with another run's weights is a run of its own. Names come from a file that
  // is not trusted.
  const bool is_ours = run_name->as_str() == impl_->trained_run &&
                       environment("WANDB_RUN_ID").empty() &&
                       id->as_str().find('/') == std::string::npos &&
                       (path->as_str().empty() ||
                        (path->as_str().starts_with("wandb/offline-run-") &&
                         path->as_str().ends_with(".wandb") && !has_dot_component(path->as_str())));
  if (!is_ours) return;
  impl_->run_id = id->as_str();
  impl_->is_resumed = true;
  impl_->loaded = {run_name->as_str(), id->as_str(), path->as_str(),
                   static_cast<std::uint64_t>(bytes->as_int())};
}

}  // namespace cairn

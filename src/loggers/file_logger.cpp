#include "cairn/loggers/file_logger.h"

#include <fmt/chrono.h>

#include <optional>
#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/files/append_file.h"
#include "loggers/csv_file.h"
#include "value/plain_json.h"

namespace cairn {
namespace {

OrderedJson json_of(const Value& value) { return plain_json(value, NoJson::kNull); }

std::string line(const OrderedJson& object) { return json_text(object, -1) + "\n"; }

// "2026-01-31T09:30:00.125Z".
std::string time_of_day(std::chrono::system_clock::time_point time) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  constexpr std::int64_t kPerSecond = 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z",
                     fmt::gmtime(static_cast<std::time_t>(milliseconds / kPerSecond)),
                     milliseconds % kPerSecond);
}

std::string csv_text(const Value& value) {
  if (value.is_str()) return value.as_str();
  const OrderedJson json = json_of(value);
  return json.is_null() ? "" : json_text(json, -1);
}

}  // namespace

struct FileLogger::Impl {
  FileLoggerOptions options;
  FileLogFormat format = FileLogFormat::kEntries;
  const State* state = nullptr;
  std::optional<AppendFile> file;  // one of the two, after init
  std::optional<CsvFile> csv;
  // The metrics of a batch that are not written yet.
  Dict metrics;
  std::int64_t step = 0;
  bool trains = false;  // fit() began and did not end

  void append(const std::string& text) {
    if (file) file->append(text);
  }
  void append_each(const Dict& entries, const char* what) {
    std::string text;
    for (const auto& [key, value] : entries) {
      text += line({{what, json_of(key)}, {"value", json_of(value)}});
    }
    append(text);
  }
  // Called in every batch. Without an object for each line it takes half the time.
  void append_entries(const Dict& entries, std::int64_t batch) {
    const std::string begin = "{\"batch\":" + std::to_string(batch) + ",\"metric\":";
    std::string text;
    for (const auto& [key, value] : entries) {
      text += begin + json_text(json_of(key), -1);
      text += ",\"value\":" + json_text(json_of(value), -1) + "}\n";
    }
    append(text);
  }
  // The begin of a line about this moment.
  OrderedJson moment() const {
    return {{"time", time_of_day(options.now())},
            {"batch", state == nullptr ? 0 : state->timestamp.batch}};
  }
  void append_event(const char* event) {
    OrderedJson object = moment();
    object["event"] = event;
    append(line(object));
  }
  // Says how long the run will be, so that its progress can be seen.
  void append_start(const State& run) {
    OrderedJson object = moment();
    object["event"] = "fit_start";
    if (run.max_duration) object["max_duration"] = run.max_duration->to_string();
    if (run.dataloader_len) object["dataloader_len"] = *run.dataloader_len;
    append(line(object));
  }
  // The metrics of a step come from the end of one batch and the begin of the next. Losses and
  // training metrics of a GPU arrive late: they have a line of their own.
  void collect(const Dict& entries, std::int64_t batch) {
    if (batch != step) write_batch();
    step = batch;
    for (const auto& [key, value] : entries)
      metrics.set(key, value);
  }
  void write_batch() {
    const Dict entries = std::exchange(metrics, {});
    if (entries.empty()) return;
    const std::string time = time_of_day(options.now());
    if (csv) {
      CsvRow row = {{"time", time}, {"batch", std::to_string(step)}};
      for (const auto& [key, value] : entries)
        row.emplace_back(key.as_str(), csv_text(value));
      return csv->append(row);
    }
    OrderedJson object = {{"time", time}, {"batch", step}};
    for (const auto& [key, value] : entries)
      object[key.as_str()] = json_of(value);
    append(line(object));
  }
};

FileLogger::FileLogger(FileLoggerOptions options) : impl_(std::make_unique<Impl>()) {
  const auto format = options.format.value();
  if (!format) {
    throw UsageError("FileLogger: format is \"entries\", \"batches\" or \"csv\", not \"" +
                     options.format + "\"");
  }
  impl_->format = *format;
  impl_->options = std::move(options);
  if (!impl_->options.now) impl_->options.now = [] { return std::chrono::system_clock::now(); };
}
FileLogger::~FileLogger() = default;
FileLogger::FileLogger(FileLogger&&) noexcept = default;
FileLogger& FileLogger::operator=(FileLogger&&) noexcept = default;

void FileLogger::init(State& state, Logger& /*logger*/) {
  impl_->state = &state;
  const std::string path =
      strict_format(NameFormat(impl_->options.filename), dist_variables(state.run_name));
  if (impl_->format == FileLogFormat::kCsv) {
    impl_->csv.emplace(path, impl_->options.overwrite);
  } else {
    impl_->file.emplace(path, impl_->options.overwrite);
  }
}

void FileLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  if (impl_->format == FileLogFormat::kEntries) {
    impl_->append_entries(metrics, step);
  } else if (impl_->file || impl_->csv) {
    impl_->collect(metrics, step);
  }
}

void FileLogger::log_hyperparameters(const Dict& hyperparameters) {
  impl_->append_each(hyperparameters, "hyperparameter");
}

void FileLogger::log_traces(const Dict& traces) { impl_->append_each(traces, "trace"); }

void FileLogger::log_message(const std::string& message) {
  if (impl_->csv) return LoggerDestination::log_message(message);
  OrderedJson object = impl_->moment();
  object["message"] = message;
  impl_->append(line(object));
}

void FileLogger::log_table(const LoggedTable& table, std::int64_t step) {
  OrderedJson rows = OrderedJson::array();
  for (const List& row : table.rows)
    rows.push_back(json_of(row));
  impl_->append(
      line({{"batch", step}, {"table", table.name}, {"columns", table.columns}, {"rows", rows}}));
}

void FileLogger::fit_start(State& state, Logger& /*logger*/) {
  impl_->append_start(state);
  impl_->trains = true;
}

void FileLogger::fit_end(State& /*state*/, Logger& /*logger*/) {
  impl_->write_batch();
  impl_->append_event("fit_end");
  impl_->trains = false;
}

void FileLogger::close(State& /*state*/, Logger& /*logger*/) {
  impl_->write_batch();
  if (std::exchange(impl_->trains, false)) impl_->append_event("close");
}

Value FileLogger::state_dict() const {
  if (impl_->metrics.empty()) return Dict{};
  return Dict{{"batch", impl_->step}, {"metrics", impl_->metrics}};
}

void FileLogger::load_state_dict(const Value& state) {
  const Value* batch = state.find("batch");
  const Value* metrics = state.find("metrics");
  if (batch == nullptr && metrics == nullptr) return;  // Composer's state is empty.
  if (batch == nullptr || !batch->is_int() || metrics == nullptr || !metrics->is_dict()) {
    throw MismatchError("FileLogger's state has the number \"batch\" and the dict \"metrics\"");
  }
  if (dist::rank() != 0) return;  // The state is rank 0's.
  impl_->step = batch->as_int();
  impl_->metrics = metrics->as_dict();
}

}  // namespace cairn

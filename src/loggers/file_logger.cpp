#include "cairn/loggers/file_logger.h"

#include <optional>

#include "cairn/checkpoint/names.h"
#include "cairn/train/state.h"

#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/files/append_file.h"
#include "value/plain_json.h"

namespace cairn {
namespace {

OrderedJson json_of(const Value& value) { return plain_json(value, NoJson::kNull); }

std::string line(const OrderedJson& object) { return json_text(object, -1) + "\n"; }

}  // namespace

struct FileLogger::Impl {
  FileLoggerOptions options;
  const State* state = nullptr;
  std::optional<AppendFile> file;

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
};

FileLogger::FileLogger(FileLoggerOptions options)
    : impl_(std::make_unique<Impl>(Impl{std::move(options), nullptr, std::nullopt})) {}
FileLogger::~FileLogger() = default;
FileLogger::FileLogger(FileLogger&&) noexcept = default;
FileLogger& FileLogger::operator=(FileLogger&&) noexcept = default;

void FileLogger::init(State& state, Logger& /*logger*/) {
  impl_->state = &state;
  const std::string path =
      strict_format(NameFormat(impl_->options.filename), dist_variables(state.run_name));
  impl_->file.emplace(path, impl_->options.overwrite);
}

// Called in every batch. Without an object for each line it takes half the time.
void FileLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  const std::string begin = "{\"batch\":" + std::to_string(step) + ",\"metric\":";
  std::string text;
  for (const auto& [key, value] : metrics) {
    text += begin + json_text(json_of(key), -1);
    text += ",\"value\":" + json_text(json_of(value), -1) + "}\n";
  }
  impl_->append(text);
}

void FileLogger::log_hyperparameters(const Dict& hyperparameters) {
  impl_->append_each(hyperparameters, "hyperparameter");
}

void FileLogger::log_traces(const Dict& traces) { impl_->append_each(traces, "trace"); }

void FileLogger::log_message(const std::string& message) {
  const std::int64_t batch = impl_->state == nullptr ? 0 : impl_->state->timestamp.batch;
  impl_->append(line({{"batch", batch}, {"message", message}}));
}

}  // namespace cairn

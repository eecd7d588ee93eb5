#include "cairn/loggers/file_logger.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/names.h"
#include "cairn/train/state.h"

#include "core/printable.h"
#include "io/append_file.h"

namespace cairn {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int();
    case Kind::kFloat:
      return value.as_float();  // NaN and infinities are written as null
    case Kind::kStr:
      return value.as_str();
    case Kind::kList:
    case Kind::kTuple: {
      Json items = Json::array();
      for (const Value& item : value.as_items()) {
        items.push_back(json_of(item));
      }
      return items;
    }
    default:
      return nullptr;
  }
}

std::string line(const Json& object) {
  return printable_json(object.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

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
  const std::string path = strict_format(impl_->options.filename, dist_variables(state.run_name));
  impl_->file.emplace(path, impl_->options.overwrite);
}

void FileLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  std::string text;
  for (const auto& [key, value] : metrics) {
    text += line({{"batch", step}, {"metric", json_of(key)}, {"value", json_of(value)}});
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

#include "cairn/train/logger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "core/text/printable.h"
#include "value/value_path.h"

namespace cairn {
namespace {

std::string join(const List& items) {
  std::string text;
  for (const Value& item : items) {
    if (!text.empty()) text += ", ";
    text += format_log_value(item);
  }
  return "[" + text + "]";
}

std::string format_dict(const Dict& dict) {
  std::string text = "{ ";
  for (const auto& [key, value] : dict) {
    text += format_log_value(key) + ": " + format_log_value(value) + ", ";
  }
  return text + "}";
}

// In a job of several processes, ranks above 0 say in each message which rank they are.
std::string rank_prefix() {
  if (!dist::is_initialized() || dist::rank() == 0) return "";
  return "rank " + std::to_string(dist::rank()) + ": ";
}

// stderr is unbuffered. One write per message keeps the lines of several processes whole.
void write_to_stderr(const std::string& message) {
  const std::string line = rank_prefix() + printable(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::mutex sink_mutex;

MessageSink& message_sink() {
  static MessageSink sink = write_to_stderr;
  return sink;
}

}  // namespace

void LoggerDestination::log_message(const std::string& /*message*/) { took_message_ = false; }

MessageSink set_message_sink(MessageSink sink) {
  const std::scoped_lock lock(sink_mutex);
  return std::exchange(message_sink(), std::move(sink));
}

void Logger::log_metrics(const Dict& metrics, std::optional<std::int64_t> step) {
  for (const auto& destination : destinations_)
    destination->log_metrics(metrics, step.value_or(state_.timestamp.batch));
}

void Logger::log_hyperparameters(const Dict& hyperparameters) {
  for (const auto& destination : destinations_)
    destination->log_hyperparameters(hyperparameters);
}

void Logger::log_traces(const Dict& traces) {
  for (const auto& destination : destinations_)
    destination->log_traces(traces);
}

void Logger::log_table(const LoggedTable& table, std::optional<std::int64_t> step) {
  for (const List& row : table.rows) {
    if (row.size() == table.columns.size()) continue;
    throw UsageError("log_table \"" + printable_line(table.name) + "\": a row has " +
                     std::to_string(row.size()) + " values, expected one for each of the " +
                     std::to_string(table.columns.size()) + " columns");
  }
  for (const auto& destination : destinations_)
    destination->log_table(table, step.value_or(state_.timestamp.batch));
}

void Logger::log_images(const LoggedImages& images, std::optional<std::int64_t> step) {
  if (!images.images.defined()) {
    throw UsageError("log_images \"" + printable_line(images.name) +
                     "\": expected a tensor of images, found none");
  }
  for (const auto& destination : destinations_)
    destination->log_images(images, step.value_or(state_.timestamp.batch));
}

// Messages quote names and texts of files, so control characters are escaped: they could move the
// cursor of a terminal.
void Logger::log_message(const std::string& message) {
  const LogLevel own = message.starts_with("warning: ") ? LogLevel::kWarning : LogLevel::kInfo;
  if (own < level_) return;
  const std::string shown = printable(message);
  bool taken = false;
  for (const auto& destination : destinations_) {
    destination->took_message_ = true;  // The base class's method sets it to false.
    destination->log_message(shown);
    taken = taken || destination->took_message_;
  }
  if (taken) return;
  MessageSink sink;
  {
    const std::scoped_lock lock(sink_mutex);
    sink = message_sink();
  }
  if (sink) sink(shown);
}

void LoggerDestination::download_file(const std::string& remote_file_name,
                                      const std::string& /*destination*/, bool /*overwrite*/) {
  throw UnsupportedError(name() + " keeps no files, and has no " + remote_file_name);
}

void Logger::upload_file(FileUpload file) {
  const FormatVariables dist = dist_variables(state_.run_name);
  file.remote_file_name = strict_format(NameFormat(file.remote_file_name), dist);
  file.file_path = strict_format(NameFormat(file.file_path), dist);
  for (const auto& destination : destinations_) {
    if (destination->can_upload_files()) destination->upload_file(file);
  }
}

bool Logger::has_file_upload_destination() const {
  return std::any_of(destinations_.begin(), destinations_.end(),
                     [](const auto& destination) { return destination->can_upload_files(); });
}

void Logger::add(std::shared_ptr<LoggerDestination> destination) {
  destinations_.push_back(std::move(destination));
}

std::string format_log_value(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
      return key_text(value);
    case Kind::kFloat:
      return fmt::format("{:.4f}", value.as_float());
    case Kind::kStr:
      return '"' + printable_line(value.as_str()) + '"';
    case Kind::kList:
    case Kind::kTuple:
      return join(value.as_items());
    case Kind::kSet:
      return join(value.as_set().items);
    case Kind::kDict:
      return format_dict(value.as_dict());
    default:
      return std::string(value.type_name());
  }
}

}  // namespace cairn

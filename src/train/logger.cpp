#include "cairn/train/logger.h"

#include <fmt/format.h>

#include "cairn/train/state.h"

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

}  // namespace

void Logger::log_metrics(const Dict& metrics) {
  for (const auto& destination : destinations_) {
    destination->log_metrics(metrics, state_.timestamp.batch);
  }
}

void Logger::log_hyperparameters(const Dict& hyperparameters) {
  for (const auto& destination : destinations_)
    destination->log_hyperparameters(hyperparameters);
}

void Logger::log_traces(const Dict& traces) {
  for (const auto& destination : destinations_)
    destination->log_traces(traces);
}

void Logger::log_message(const std::string& message) {
  for (const auto& destination : destinations_)
    destination->log_message(message);
}

void Logger::add(std::shared_ptr<LoggerDestination> destination) {
  destinations_.push_back(std::move(destination));
}

std::string format_log_value(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.as_bool() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.as_int());
    case Kind::kBigInt:
      return value.get_if<BigInt>()->decimal();
    case Kind::kFloat:
      return fmt::format("{:.4f}", value.as_float());
    case Kind::kStr:
      return '"' + value.as_str() + '"';
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

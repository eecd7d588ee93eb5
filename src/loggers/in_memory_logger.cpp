#include "cairn/loggers/in_memory_logger.h"

#include "cairn/error.h"
#include "cairn/train/state.h"

namespace cairn {

void InMemoryLogger::init(State& state, Logger& /*logger*/) { state_ = &state; }

void InMemoryLogger::log_metrics(const Dict& metrics, std::int64_t step) {
  Timestamp now;
  now.batch = step;
  if (state_ != nullptr) now = state_->timestamp;
  for (const auto& [key, value] : metrics) {
    data_[key.as_str()].emplace_back(now, value);
  }
}

void InMemoryLogger::log_hyperparameters(const Dict& hyperparameters) {
  for (const auto& [key, value] : hyperparameters) {
    hyperparameters_.set(key, value);
  }
}

void InMemoryLogger::log_message(const std::string& message) { messages_.push_back(message); }

const InMemoryLogger::Series& InMemoryLogger::series(const std::string& metric) const {
  const auto found = data_.find(metric);
  if (found != data_.end()) return found->second;
  std::string message = "no metric \"" + metric + "\" was logged; there are:";
  for (const auto& [key, values] : data_) {
    message += " " + key;
  }
  throw NotFoundError(message);
}

const Value& InMemoryLogger::most_recent_value(const std::string& metric) const {
  return series(metric).back().second;
}

}  // namespace cairn

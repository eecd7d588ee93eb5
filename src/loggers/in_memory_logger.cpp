#include "cairn/loggers/in_memory_logger.h"

#include <limits>

#include "cairn/error.h"
#include "cairn/train/state.h"

namespace cairn {
namespace {

double number_of(const Value& value) {
  if (value.is_int() || value.kind() == Kind::kFloat) return value.as_float();
  const auto* duration = value.get_if<TimeDelta>();
  if (duration == nullptr) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kMicrosPerSecond = 1e6;
  return static_cast<double>(duration->to_microseconds().count()) / kMicrosPerSecond;
}

}  // namespace

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

const InMemoryLogger::Series& InMemoryLogger::find(const std::string& metric) const {
  const auto found = data_.find(metric);
  if (found != data_.end()) return found->second;
  std::string message = "no metric \"" + metric + "\" was logged; there are:";
  for (const auto& [key, values] : data_) {
    message += " " + key;
  }
  throw NotFoundError(message);
}

const Value& InMemoryLogger::most_recent_value(const std::string& metric) const {
  return find(metric).back().second;
}

std::map<std::string, std::vector<double>> InMemoryLogger::get_timeseries(
    const std::string& metric) const {
  std::map<std::string, std::vector<double>> result;
  for (const auto& [time, value] : find(metric)) {
    const Value fields = time.state_dict();
    for (const auto& [field, count] : fields.as_dict()) {
      result[field.as_str()].push_back(number_of(count));
    }
    result[metric].push_back(number_of(value));
  }
  return result;
}

}  // namespace cairn

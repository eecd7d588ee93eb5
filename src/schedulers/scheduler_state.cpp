#include "schedulers/scheduler_state.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "cairn/error.h"

#include "train/state/number.h"

namespace cairn {

namespace {

// A key of a Counter, which torch.distributed.checkpoint turns into text.
std::optional<std::int64_t> int_key(const Value& key) {
  if (key.is_int()) return key.as_int();
  if (!key.is_str()) return std::nullopt;
  const std::string& text = key.as_str();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

}  // namespace

void SchedulerStateWriter::counts(const char* key,
                                  const std::map<std::int64_t, std::int64_t>& values) {
  Dict dict(DictType::kCounter);  // PyTorch calls elements() of the Counter
  for (const auto& [value, times] : values) {
    dict.set(value, times);
  }
  state_.set(key, std::move(dict));
}

SchedulerStateReader::SchedulerStateReader(std::string scheduler, const Value& state)
    : scheduler_(std::move(scheduler)), state_(state) {
  if (state_.is_dict()) return;
  misfits_.push_back(fmt::format("expected a dict, found {}", state_.type_name()));
  state_ = Dict();
}

const Value* SchedulerStateReader::find(const char* key) const { return state_.find(key); }

void SchedulerStateReader::add_misfit(const char* key, const char* wanted, const Value& found) {
  misfits_.push_back(fmt::format("\"{}\" must be {}, found {}", key, wanted, found.type_name()));
}

void SchedulerStateReader::steps(const char* key, std::int64_t& target) {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_int() || value->as_int() < 1)
    return add_misfit(key, "an int of 1 or more", *value);
  target = value->as_int();
}

void SchedulerStateReader::count(const char* key, std::int64_t& target) {
  const Value* value = find(key);
  if (value == nullptr) {
    misfits_.push_back(fmt::format("\"{}\" is missing", key));
  } else if (!value->is_int()) {
    add_misfit(key, "an int", *value);
  } else {
    target = value->as_int();
  }
}

void SchedulerStateReader::number(const char* key, double& target) {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_int() && value->kind() != Kind::kFloat) return add_misfit(key, "a number", *value);
  target = value->as_float();
}

void SchedulerStateReader::numbers(const char* key, std::vector<double>& target) {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_list() || value->as_items().size() != target.size()) {
    misfits_.push_back(fmt::format("\"{}\" must be a list of {} numbers, one per parameter group",
                                   key, target.size()));
    return;
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    const Value& item = value->as_items()[i];
    // a tensor if the optimizer is Adam(lr=tensor)
    const std::optional<double> number = find_number(item);
    if (!number) return add_misfit(key, "a list of numbers", item);
    target[i] = *number;
  }
}

void SchedulerStateReader::counts(const char* key, std::map<std::int64_t, std::int64_t>& target) {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_dict()) return add_misfit(key, "a dict of counts", *value);
  std::map<std::int64_t, std::int64_t> counts;
  for (const auto& [item, times] : value->as_dict()) {
    const auto number = int_key(item);
    if (!number || !times.is_int()) return add_misfit(key, "a dict of int counts", times);
    counts[*number] = times.as_int();
  }
  target = std::move(counts);
}

void SchedulerStateReader::finish() const {
  if (misfits_.empty()) return;
  std::string message =
      "the saved state does not fit the scheduler " + scheduler_ + ", nothing was changed:";
  for (const std::string& misfit : misfits_) {
    message += "\n  " + misfit;
  }
  throw MismatchError(message);
}

}  // namespace cairn

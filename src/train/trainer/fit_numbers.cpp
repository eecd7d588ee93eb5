#include "train/trainer/fit_numbers.h"

#include <fmt/format.h>

#include <utility>

#include "cairn/error.h"

namespace cairn {

void FitNumbers::resume(std::optional<FitCalls> known) {
  is_silent_ = !known;
  if (known) calls_ = std::move(*known);
}

FitNumbers::Start FitNumbers::next(const std::optional<Time>& duration) {
  const std::int64_t index = made_++;
  const bool is_finished = index < calls_.finished;
  const bool is_followed = index + 1 < calls_.finished || !calls_.open.empty();
  Start start{.number = index + 1};
  if (is_finished && (duration || is_followed)) {
    start.is_over = true;
    start.end = calls_.end;
  } else if (is_finished) {
    calls_.finished = index;
    calls_.open.emplace_back();
    calls_.current = 0;
    start.is_known = true;
  } else if (const std::size_t at = index - calls_.finished; at < calls_.open.size()) {
    start = known_call(at, duration);
    calls_.current = at;
  } else {
    calls_.open.emplace_back();
    calls_.current = calls_.open.size() - 1;
    if (is_unknown(start) && duration) start.begin = Time(0, duration->unit());
  }
  return start;
}

FitNumbers::Start FitNumbers::known_call(std::size_t index, const std::optional<Time>& duration) {
  Start start{.number = calls_.finished + static_cast<std::int64_t>(index) + 1, .is_known = true};
  const std::optional<FitCall>& call = calls_.open[index];
  if (!call || !duration) return start;
  if (call->duration && call->duration->to_string() == duration->to_string()) {
    start.end = call->end;
    return start;
  }
  if (call->begin.unit() != duration->unit()) {
    throw UsageError(fmt::format(
        "fit(): duration is {}, and call {} of fit() in this run began at {}, before the run was "
        "started again: give the duration in that unit",
        duration->to_string(), start.number, call->begin.to_string()));
  }
  start.begin = call->begin;
  return start;
}

void FitNumbers::note(const FitCall& call) { calls_.open.at(calls_.current) = call; }

void FitNumbers::finish(const Time& end) {
  const std::size_t done = calls_.current + 1;
  calls_.finished += static_cast<std::int64_t>(done);
  calls_.open.erase(calls_.open.begin(), calls_.open.begin() + static_cast<std::ptrdiff_t>(done));
  calls_.current = 0;
  calls_.end = end;
}

}  // namespace cairn

#include "train/state/load/fit_calls.h"

#include <utility>

#include "cairn/error.h"

namespace cairn {
namespace {

Value value_of(const std::optional<Time>& time) {
  return time ? Value(time->to_string()) : Value();
}

std::optional<Time> time_of(const Value& value) {
  if (value.is_none()) return std::nullopt;
  return Time(value.as_str());
}

}  // namespace

std::optional<Value> fit_calls_value(const State& state) {
  if (!state.fit_calls) return std::nullopt;
  const FitCalls& calls = *state.fit_calls;
  const bool is_plain =
      calls.finished == 0 && calls.open.size() <= 1 && (calls.open.empty() || !calls.open.front());
  if (is_plain) return std::nullopt;
  List open;
  for (std::size_t i = 0; i < calls.open.size(); ++i) {
    const std::optional<FitCall>& call = calls.open[i];
    if (!call) {
      open.emplace_back();
      continue;
    }
    const Time end = i == calls.current ? state.max_duration.value_or(call->end) : call->end;
    open.emplace_back(Dict{{"duration", value_of(call->duration)},
                           {"begin", call->begin.to_string()},
                           {"end", end.to_string()}});
  }
  return Dict{
      {"finished", calls.finished}, {"end", value_of(calls.end)}, {"open", std::move(open)}};
}

FitCalls fit_calls_from(const Value& value) {
  FitCalls calls;
  calls.finished = value.at("finished").as_int();
  calls.end = time_of(value.at("end"));
  if (calls.finished < 0 || (calls.finished > 0 && !calls.end)) {
    throw MismatchError("state/timestamp/fit_calls: " + std::to_string(calls.finished) +
                        " calls have finished, the last at " +
                        (calls.end ? calls.end->to_string() : "None"));
  }
  for (const Value& call : value.at("open").as_items()) {
    if (call.is_none()) {
      calls.open.emplace_back();
      continue;
    }
    calls.open.emplace_back(FitCall{.duration = time_of(call.at("duration")),
                                    .begin = Time(call.at("begin").as_str()),
                                    .end = Time(call.at("end").as_str())});
  }
  return calls;
}

}  // namespace cairn

#include "cairn/train/interval.h"

#include "cairn/train/state.h"

#include "train/engine/interval_schedule.h"

namespace cairn {
namespace {

std::optional<Moment> moment_of(Event event, bool checkpoint_events) {
  switch (event) {
    case Event::kBatchCheckpoint:
    case Event::kEpochCheckpoint:
    case Event::kIterationCheckpoint: {
      if (!checkpoint_events) return std::nullopt;
      if (event == Event::kBatchCheckpoint) return Moment::kBatch;
      return event == Event::kEpochCheckpoint ? Moment::kEpoch : Moment::kIteration;
    }
    case Event::kBatchEnd:
    case Event::kEpochEnd:
    case Event::kIterationEnd:
    case Event::kFitEnd: {
      if (checkpoint_events) return std::nullopt;
      if (event == Event::kBatchEnd) return Moment::kBatch;
      if (event == Event::kFitEnd) return Moment::kFitEnd;
      return event == Event::kEpochEnd ? Moment::kEpoch : Moment::kIteration;
    }
    default:
      return std::nullopt;
  }
}

FinalMoment final_moment(const IntervalScheduleOptions& options) {
  if (!options.include_end_of_training) return FinalMoment::kNone;
  return options.checkpoint_events ? FinalMoment::kStep : FinalMoment::kFitEnd;
}

}  // namespace

std::function<bool(const State& state, Event event)> create_interval_scheduler(
    const Interval& interval, IntervalScheduleOptions options) {
  const bool checkpoint_events = options.checkpoint_events;
  if (const IntervalFunction* function = interval.function()) {
    return [function = *function, checkpoint_events](const State& state, Event event) {
      return moment_of(event, checkpoint_events) && function(state, event);
    };
  }
  return [scheduler = IntervalScheduler(*interval.time(), final_moment(options)),
          checkpoint_events](const State& state, Event event) mutable {
    const std::optional<Moment> moment = moment_of(event, checkpoint_events);
    return moment && scheduler({.previous = state.previous_timestamp,
                                .now = state.timestamp,
                                .max_duration = state.max_duration,
                                .dataloader_len = state.dataloader_len},
                               *moment);
  };
}

}  // namespace cairn

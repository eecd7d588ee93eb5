// The points of a training run at which callbacks and algorithms act, in Composer's order
// (composer/core/event.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn {

enum class Event : std::uint8_t {
  kInit,
  kBeforeLoad,
  kAfterLoad,
  kFitStart,
  kIterationStart,
  kEpochStart,
  kBeforeDataloader,
  kAfterDataloader,
  kBatchStart,
  kBeforeTrainBatch,
  kBeforeForward,
  kAfterForward,
  kBeforeLoss,
  kAfterLoss,
  kBeforeBackward,
  kAfterBackward,
  kAfterTrainBatch,
  kBatchEnd,
  kBatchCheckpoint,
  kEpochEnd,
  kEpochCheckpoint,
  kIterationEnd,
  kIterationCheckpoint,
  kFitEnd,
  kEvalBeforeAll,
  kEvalStart,
  kEvalBatchStart,
  kEvalBeforeForward,
  kEvalAfterForward,
  kEvalBatchEnd,
  kEvalEnd,
  kEvalAfterAll,
  kEvalStandaloneStart,
  kEvalStandaloneEnd,
  kPredictStart,
  kPredictBatchStart,
  kPredictBeforeForward,
  kPredictAfterForward,
  kPredictBatchEnd,
  kPredictEnd,
};

inline constexpr int kNumEvents = static_cast<int>(Event::kPredictEnd) + 1;

// Composer's value: "batch_end".
std::string_view name(Event event);

// The inverse, in any case of letters; nullopt for a name that is none.
std::optional<Event> find_event(std::string_view name);

}  // namespace cairn

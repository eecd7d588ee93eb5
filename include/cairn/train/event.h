// The points of a training run at which callbacks and algorithms act, in Composer's order
// (composer/core/event.py).
//
// At each event algorithms run first, then callbacks, then loggers. At init the order is reversed.
// Once per Trainer: init, before_load and after_load, even if nothing is loaded. Then, for each
// fit():
//
//   fit_start
//     iteration_start, epoch_start
//       before_dataloader, after_dataloader
//       batch_start
//         before_train_batch
//           before_forward, after_forward, before_loss, after_loss,
//           before_backward, after_backward           once for each microbatch
//         after_train_batch                           gradients are complete and unscaled
//                                                     the optimizer steps
//       batch_end, (evaluation), batch_checkpoint     the time has advanced
//     epoch_end, (evaluation), epoch_checkpoint
//     iteration_end, (evaluation), iteration_checkpoint
//   fit_end, (evaluation)
//
// A run that resumes inside an epoch has no iteration_start and no epoch_start for this epoch. A
// checkpoint saved in a *_checkpoint event includes what callbacks did in the *_end event before
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

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
  // Within fit(): around all evaluators that are due, and in each of them.
  kEvalBeforeAll,
  kEvalStart,
  kEvalBatchStart,
  kEvalBeforeForward,
  kEvalAfterForward,
  kEvalBatchEnd,
  kEvalEnd,
  kEvalAfterAll,
  // Around an eval() outside fit(), in place of eval_before_all and eval_after_all.
  kEvalStandaloneStart,
  kEvalStandaloneEnd,
  kPredictStart,
  kPredictBatchStart,
  kPredictBeforeForward,
  kPredictAfterForward,
  kPredictBatchEnd,
  kPredictEnd,
};

// Events are numbered from 0 without gaps.
inline constexpr int kNumEvents = static_cast<int>(Event::kPredictEnd) + 1;

// Composer's value: "batch_end". It is also the name of the callback's method.
std::string_view name(Event event);

// The inverse of name(), ignoring case; nullopt for an unknown name.
std::optional<Event> find_event(std::string_view name);

}  // namespace cairn

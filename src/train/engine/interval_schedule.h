// When to save or to evaluate: Composer's create_interval_scheduler().
//
// At each moment of training the scheduler says whether it fires. An interval is one of:
//   - a count ("2ep", "100ba", "1e6tok", "600sec", "1iter"): fires if a multiple of it was reached
//     or passed since the last batch, epoch or iteration; once, even if several were passed. A
//     count of 0 or less never fires.
//   - a fraction of the run ("0.1dur"), resolved with max_duration when the scheduler is asked. If
//     max_duration is in epochs or batches, the fraction becomes a whole number n of batches, and
//     fires at multiples of n. Otherwise it becomes a count of samples, tokens, seconds or
//     iterations, which fires as above.
// At the end of training it fires once more, unless it already fired for the same batch.
//
// Differences from Composer:
//   - A fraction whose product is whole except for rounding error is not rounded up (0.07dur of
//     100ba is 7, not 8).
//   - "0dur" is an error at construction, not a division by zero.
//   - Fractions of a max_duration in seconds or iterations also fire.
//   - If max_duration is in iterations, the end of the run is seen when its last iteration ends.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/time.h"

namespace cairn {

// The moments of training. For saving they are the batch_checkpoint, epoch_checkpoint and
// iteration_checkpoint events. For evaluating they are batch_end, epoch_end, iteration_end and
// fit_end.
enum class Moment : std::uint8_t { kBatch, kEpoch, kIteration, kFitEnd };

// Where the end of training counts. A step is a batch, an epoch or an iteration.
enum class FinalMoment : std::uint8_t { kNone, kStep, kFitEnd };

// How far training is, as the scheduler needs it.
struct IntervalState {
  std::optional<Timestamp> previous = std::nullopt;  // Before the last step; none before the first.
  Timestamp now = {};
  std::optional<Time> max_duration = std::nullopt;
  std::optional<std::int64_t> dataloader_len = std::nullopt;  // Batches per epoch, if known.
};

class IntervalScheduler {
 public:
  // Throws UsageError for a fraction that is not above zero.
  explicit IntervalScheduler(Time interval, FinalMoment final_moment = FinalMoment::kStep);

  // Call it exactly once at each moment: the scheduler remembers when it fired. Throws UsageError
  // for a fraction of epochs if the length of the data loader is unknown.
  bool operator()(const IntervalState& state, Moment moment);

 private:
  bool is_end(const IntervalState& state, Moment moment) const;
  bool is_crossed(const IntervalState& state, Moment moment) const;
  bool is_fraction_crossed(const IntervalState& state, Moment moment) const;

  Time interval_;
  FinalMoment final_moment_;
  std::optional<std::int64_t> last_batch_ = std::nullopt;  // When the interval itself last fired.
};

}  // namespace cairn

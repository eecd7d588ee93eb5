// When to save or to evaluate: Composer's create_interval_scheduler().
//
// At each moment of training the scheduler says whether it fires. An interval is
//   - a count ("2ep", "100ba", "1e6tok", "600sec", "1iter"): fires when a multiple of it was
//     reached or passed since the last batch, epoch or iteration, once however many were passed; a
//     count of 0 or less never fires;
//   - a fraction of the run ("0.1dur"), resolved with max_duration when asked: a whole number n of
//     batches (for a max_duration in epochs or batches: fires at the multiples of n), or of
//     samples, tokens, seconds or iterations (as above).
// At the end of training it fires once more, unless it fired for the same batch already.
//
// Differences from Composer: a fraction whose product is whole but for rounding is not rounded up
// (0.07dur of 100ba is 7, not 8); "0dur" is an error at construction, not a division by zero;
// fractions of a max_duration in seconds or iterations fire, too; and the end of a run whose
// max_duration is in iterations is seen where it comes, when its last iteration ends.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/time.h"

namespace cairn {

// The batch_checkpoint, epoch_checkpoint and iteration_checkpoint events for saving; batch_end,
// epoch_end, iteration_end and fit_end for evaluating.
enum class Moment : std::uint8_t { kBatch, kEpoch, kIteration, kFitEnd };

// Where the end of training counts; a step is a batch, an epoch or an iteration.
enum class FinalMoment : std::uint8_t { kNone, kStep, kFitEnd };

// How far training is, as the scheduler needs it.
struct IntervalState {
  std::optional<Timestamp> previous = std::nullopt;  // before the last step; none before the first
  Timestamp now = {};
  std::optional<Time> max_duration = std::nullopt;
  std::optional<std::int64_t> dataloader_len = std::nullopt;  // batches in an epoch, where known
};

class IntervalScheduler {
 public:
  // UsageError for a fraction that is not above zero.
  explicit IntervalScheduler(Time interval, FinalMoment final_moment = FinalMoment::kStep);

  // To be asked exactly once at each moment: it remembers when it fired. UsageError for a fraction
  // of epochs when the length of the data loader is not known.
  bool operator()(const IntervalState& state, Moment moment);

 private:
  bool is_end(const IntervalState& state, Moment moment) const;
  bool is_crossed(const IntervalState& state, Moment moment) const;
  bool is_fraction_crossed(const IntervalState& state, Moment moment) const;

  Time interval_;
  FinalMoment final_moment_;
  std::optional<std::int64_t> last_batch_ = std::nullopt;  // at which the interval itself fired
};

}  // namespace cairn

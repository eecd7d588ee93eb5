// RankBatch: what the ranks of a job tell each other about each batch, besides gradients.
// Everything that decides how a rank continues is known to all ranks, so that all send the
// same messages in the same order. Messages 1, 2, 4 and 5 are one sum over the ranks each.
//
//  1. begin(), when this rank's loader was asked for a batch: whether there is one, its samples,
//     tokens and weight, whether this rank's trained parameters or its buffers have changed, and
//     whether a callback here needs the losses at batch_end. If a rank has no batch, or
//     stop_training() was called after message 5 of the last batch, no rank trains this batch, and
//     messages 2 to 5 do not follow. A rank that stops does not ask its loader. Not sent if message
//     5 of the last batch said it on all ranks.
//  2. join(), after before_train_batch, only if message 1 may be outdated: a rank has a callback or
//     an algorithm with may_change_batch(), or an optimizer evaluates the batch again. Says weight,
//     parameters and buffers again.
//  3. Only if a rank's parameters have changed: all ranks make a GradientSync, which compares them.
//     Only if a rank's buffers have changed: rank 0 sends its buffers. Then the gradients.
//  4. Only if a rank needs them: the losses, after the optimizer's step (LossReport).
//  5. end(), after batch_end: whether this rank stops, requests from outside, rank 0's time for the
//     batch, and the losses, if message 4 was not sent. Evaluations and saves, which follow, are
//     then the same on all ranks. If an evaluation ran, message 5 is sent again without losses,
//     because its events may stop training.
//     Also what message 1 of the next batch would say, if the rank knows: its loader can peek(),
//     and nothing here may change a batch. Message 5 after an evaluation does not say it.
//
// stop_training() on one rank takes effect on all ranks with the next message 5, or with message 1
// if it was called in a save and message 1 is sent. Until then the other ranks do not know of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/engine/stop_request.h"

namespace cairn {

class RankBatch {
 public:
  // Returns the sums over the ranks.
  using Sum = std::function<std::vector<double>(std::vector<double> own, const std::string& what)>;

  // `sum` is null in a job of one process. There every call returns what it is given.
  explicit RankBatch(Sum sum) : sum_(std::move(sum)) {}

  struct Join {
    double weight = 0;
    bool has_other_parameters = false;
    bool has_other_buffers = false;
  };
  struct Begin {
    bool stops = false;
    bool has_batch = false;
    std::int64_t samples = 0;
    std::int64_t tokens = 0;
    bool needs_losses = false;
    bool may_change = false;
    Join join = {};
  };
  struct End {
    bool stops = false;
    Requests asked = {};
    std::chrono::microseconds duration{};  // Zero on all ranks except rank 0.
    std::vector<double> losses = {};       // LossReport::message(), as long on all ranks.
    // Has a batch, and neither stops nor may change it.
    std::optional<Begin> next = std::nullopt;
  };

  // Whether all ranks train a batch next, by the last message 5.
  bool has_begun() const { return next_.has_value(); }
  // Message 1, if it is needed. Returns whether any rank stops, whether all have a batch, and sums.
  // Calls `own` only if the message is sent.
  Begin begin(const std::function<Begin()>& own);
  // Message 2, if it is needed. Returns the sum of the weights, and whether any rank has others.
  // Calls `own` only if the message is sent.
  Join join(const std::function<Join()>& own);
  // Message 5. Returns whether any rank stops, the requests of all ranks, and rank 0's duration.
  End end(const End& own);

 private:
  Sum sum_;
  std::optional<Begin> next_;   // From message 5, if message 1 is not needed.
  std::optional<Join> joined_;  // From message 1, if message 2 is not needed.
};

}  // namespace cairn

#include "train/loop/rank_batch.h"

#include <span>
#include <utility>

namespace cairn {
namespace {

double number(bool flag) { return flag ? 1.0 : 0.0; }

std::vector<double> message_of(const RankBatch::Begin& own) {
  return {number(own.stops),
          number(!own.has_batch),
          number(own.may_change),
          static_cast<double>(own.samples),
          static_cast<double>(own.tokens),
          own.join.weight,
          number(own.join.has_other_parameters),
          number(own.join.has_other_buffers),
          number(own.needs_losses)};
}

RankBatch::Begin begin_in(std::span<const double> sums) {
  return {.stops = sums[0] > 0,
          .has_batch = sums[1] == 0,
          .samples = static_cast<std::int64_t>(sums[3]),
          .tokens = static_cast<std::int64_t>(sums[4]),
          .needs_losses = sums[8] > 0,
          .may_change = sums[2] > 0,
          .join = {.weight = sums[5],
                   .has_other_parameters = sums[6] > 0,
                   .has_other_buffers = sums[7] > 0}};
}

}  // namespace

RankBatch::Begin RankBatch::begin(const std::function<Begin()>& own) {
  joined_.reset();
  if (next_) {
    joined_ = next_->join;
    return *std::exchange(next_, std::nullopt);
  }
  const Begin now = own();
  if (!sum_) return now;
  const Begin all = begin_in(sum_(message_of(now), "beginning a batch"));
  if (!all.may_change) joined_ = all.join;
  return all;
}

RankBatch::Join RankBatch::join(const std::function<Join()>& own) {
  if (joined_) return *std::exchange(joined_, std::nullopt);
  const Join now = own();
  if (!sum_) return now;
  const auto sums =
      sum_({now.weight, number(now.has_other_parameters), number(now.has_other_buffers)},
           "weighing a batch");
  return {.weight = sums[0], .has_other_parameters = sums[1] > 0, .has_other_buffers = sums[2] > 0};
}

RankBatch::End RankBatch::end(const End& own) {
  if (!sum_) return own;
  std::vector<double> message = {number(own.stops), number(own.asked.save), number(own.asked.stop),
                                 static_cast<double>(own.duration.count())};
  const std::size_t before_next = message.size();
  for (const double each : message_of(own.next.value_or(Begin())))  // A Begin() has no batch.
    message.push_back(each);
  const std::size_t before_losses = message.size();
  message.insert(message.end(), own.losses.begin(), own.losses.end());
  const auto sums = sum_(std::move(message), "ending a batch");
  const Begin next = begin_in(std::span(sums).subspan(before_next));
  next_.reset();
  if (next.has_batch) next_ = next;
  const auto losses = std::span(sums).subspan(before_losses);
  return {.stops = sums[0] > 0,
          .asked = joint_requests(own.asked, sums[1] > 0, sums[2] > 0),
          .duration = std::chrono::microseconds(static_cast<std::int64_t>(sums[3])),
          .losses = {losses.begin(), losses.end()}};
}

}  // namespace cairn

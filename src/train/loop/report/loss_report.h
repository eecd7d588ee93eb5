// LossReport: publishes the losses of training batches in state.total_loss_dict and in the log,
// with their own batch as the step; and training metrics in state.metric_values.
//
// In one process, losses are published when they have arrived from the device (pending_losses.h),
// or when something needs them. In a job of several processes they are averaged over the ranks, so
// all ranks publish at the same places:
//
//  - publish(true) sends a message for each batch whose losses are under way.
//  - message() and publish_message() let the losses of one batch go with another message: on the
//  CPU
//    those of this batch; on a device those of the batch before, which has ended there meanwhile.
//
// A message is one number, whether this rank has other losses than in the last message, and the
// losses. Its length is the same on all ranks. If any rank has others, the ranks compare the names,
// and send again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/loop/loop_context.h"
#include "train/loop/report/pending_losses.h"

namespace cairn {

class LossReport {
 public:
  explicit LossReport(LoopContext& context) : context_(context) {}

  // Sends the losses of the current batch on their way to the host. Does not wait for the device.
  // `metrics`: none in a job of several processes. Their values wait for the device only if one has
  // several elements.
  void add(const NamedValues& losses, const Metrics& metrics);
  bool is_empty() const { return pending_.empty(); }
  // If `all`, waits for the device. Only with `all` in a job of several processes.
  void publish(bool all);
  // Publishes what this process alone has, and throws nothing: to be called after a failure.
  void publish_after_failure() noexcept;

  // Takes the losses that can be sent, for a message that all ranks send.
  std::vector<double> message();
  // `sums`: those of all ranks' message().
  void publish_message(const std::vector<double>& sums);

 private:
  std::vector<double> message_of(const NamedDoubles& own) const;
  std::optional<NamedDoubles> averages_in(const std::vector<double>& sums,
                                          const NamedDoubles& own) const;
  NamedDoubles averages_of_ranks(const NamedDoubles& own);
  NamedDoubles settle_names(const NamedDoubles& own);
  void publish_now(std::int64_t batch, const NamedDoubles& losses);

  LoopContext& context_;
  PendingLosses pending_;
  std::optional<BatchLosses> sent_;        // From message() to publish_message().
  std::vector<std::string> known_losses_;  // Names that all ranks know, in the order of messages.
};

}  // namespace cairn

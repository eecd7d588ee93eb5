// PendingLosses: the losses and metrics of training batches, on their way from the device to the
// host.
//
//  1. add() enqueues the copy of a batch's values after the work of that batch, and does not wait.
//  2. take_arrived() gives the batches whose copies have arrived, oldest first. At most kMaxPending
//     batches are on their way. If the host is further ahead of the device than that, it waits for
//     the oldest.
//  3. take_all() waits for the rest.
//
// Values in the host's memory have arrived at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

using NamedValues = std::vector<std::pair<std::string, at::Tensor>>;
using NamedDoubles = std::vector<std::pair<std::string, double>>;

struct BatchLosses {
  std::int64_t batch;  // the batches that were trained before it
  NamedDoubles losses;
  NamedDoubles metrics;
};

class PendingLosses {
 public:
  // All values are scalars.
  void add(std::int64_t batch, const NamedValues& losses, const NamedValues& metrics);
  std::vector<BatchLosses> take_arrived();
  std::vector<BatchLosses> take_all();
  // The oldest batch. If `not_newest`, only if a newer one follows it. nullopt: there is none. May
  // wait for the device.
  std::optional<BatchLosses> take_oldest(bool not_newest);
  bool empty() const { return batches_.empty(); }

 private:
  static constexpr std::size_t kMaxPending = 16;

  struct Pending {
    std::int64_t batch;
    NamedValues values;                // views of the copy, or the values themselves
    std::size_t count_of_losses;       // the first of them; metrics follow
    at::Tensor source = {};            // of the copy; must live as long as the copy goes on
    std::optional<c10::Event> copied;  // none: the losses can be read at once
  };
  BatchLosses take_first();

  std::deque<Pending> batches_;
};

}  // namespace cairn

// How the samples of an epoch are dealt to ranks, as a DataLoader's state_dict() describes it.
//
// The order of an epoch does not depend on the number of ranks. Batch k of all ranks together
// begins at position k * ranks * batch_size of the order. So a job with another number of ranks can
// continue after the samples that were used. If its batches over all ranks are as large as before,
// they are the batches of the uninterrupted run.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/value.h"

namespace cairn {

struct Dealing {
  std::int64_t samples = 0;  // In the data.
  bool shuffle = false;
  std::int64_t seed = 0;
  bool drop_last = false;       // Drop a batch that is not full.
  std::int64_t batch_size = 1;  // Per rank.
  std::int64_t ranks = 1;
  bool rank_drop_last = false;  // Drop samples that cannot be split evenly over the ranks.

  // nullopt if `state` is not the state of a DataLoader.
  static std::optional<Dealing> of(const Value& state);

  // Whether this dealing and `before` have the same order of the same samples, and another number
  // of ranks explains any other difference.
  bool may_go_on_from(const Dealing& before) const;

  // For an epoch whose first `had` samples were dealt differently: the samples that all ranks
  // together have had after `batches` more batches on each. All samples if no batch is left.
  std::int64_t samples_after(std::int64_t had, std::int64_t batches) const;
};

}  // namespace cairn

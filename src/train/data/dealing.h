// How the samples of an epoch are dealt to ranks, as a DataLoader's state_dict() tells it.
//
// The order of an epoch does not know how many ranks there are: batch k of all ranks together is
// what stands from k * ranks * batch_size on in it. So a job of another number of ranks can go on
// behind the samples that were had. With as many samples in a batch of all ranks, the batches are
// those that would have come.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/value.h"

namespace cairn {

struct Dealing {
  std::int64_t samples = 0;  // of the data
  bool shuffle = false;
  std::int64_t seed = 0;
  bool drop_last = false;       // a batch that is not full
  std::int64_t batch_size = 1;  // of a rank
  std::int64_t ranks = 1;
  bool rank_drop_last = false;  // samples that do not go round

  // nullopt for what is no state of a DataLoader.
  static std::optional<Dealing> of(const Value& state);

  // Whether both are the same order of the same samples, and either everything else is the same,
  // too, or another number of ranks explains it.
  bool may_go_on_from(const Dealing& before) const;

  // Of an epoch whose first `had` were dealt otherwise: those that all ranks together have had when
  // each has had `batches` more. All of them when no batch is left.
  std::int64_t samples_after(std::int64_t had, std::int64_t batches) const;
};

}  // namespace cairn

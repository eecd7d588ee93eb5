// DistributedSampler: deals samples to ranks (torch.utils.data.DistributedSampler, with the same
// result).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// The fields are in PyTorch's order. As in PyTorch, shuffle is true by default.
struct DistributedSamplerOptions {
  // Default: dist::world_size() and dist::rank().
  std::optional<std::int64_t> num_replicas = std::nullopt;
  std::optional<std::int64_t> rank = std::nullopt;
  // The order of epoch e is randperm(n) of a generator seeded with seed + e: the same on all ranks.
  bool shuffle = true;
  // nullopt: the DataLoader's seed, see DataLoaderOptions::seed.
  std::optional<std::int64_t> seed = std::nullopt;
  // All ranks get equally many samples. If true, the samples left over are dropped. If false, the
  // first samples of the epoch occur again at its end; evaluations do not count the repeated ones.
  bool drop_last = false;
};

// Rank r gets every num_replicas-th sample of an epoch, beginning with the r-th.
class DistributedSampler {
 public:
  // Throws UsageError for a rank outside of 0 to num_replicas - 1.
  explicit DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options = {});

  const DistributedSamplerOptions& options() const { return options_; }  // ranks filled in
  // Sets the seed that later calls of indices() use if the options give none. 0 until then.
  void set_default_seed(std::int64_t seed) { default_seed_ = seed; }
  std::int64_t seed() const { return options_.seed.value_or(default_seed_); }
  std::int64_t size() const { return size_; }  // number of this rank's samples
  // How many samples at the end of this rank's part are repeated ones: 0 or 1, or more if there are
  // fewer samples than ranks.
  std::int64_t num_repeated() const;
  std::vector<std::int64_t> indices(std::int64_t epoch) const;
  // This rank's part of the samples that remain of the epoch after its first `had` samples,
  // whichever ranks took the first ones. The remaining samples are dealt like an epoch of their
  // own. For a job that resumes with another number of ranks.
  std::vector<std::int64_t> remaining_indices(std::int64_t epoch, std::int64_t had) const;
  [[deprecated("use remaining_indices()")]] auto rest_of(std::int64_t e, std::int64_t had) const {
    return remaining_indices(e, had);
  }

 private:
  std::int64_t dataset_size_;
  DistributedSamplerOptions options_;
  std::int64_t default_seed_ = 0;
  std::int64_t size_;
};

}  // namespace cairn

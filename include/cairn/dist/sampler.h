// DistributedSampler: which samples are whose (torch.utils.data.DistributedSampler, to the bit).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cairn {

// In PyTorch's order. Its shuffle is true by default, as there.
struct DistributedSamplerOptions {
  // Default: dist::world_size() and dist::rank().
  std::optional<std::int64_t> num_replicas = std::nullopt;
  std::optional<std::int64_t> rank = std::nullopt;
  // Epoch e is the order randperm(n) of a generator seeded with seed + e; the same on all ranks.
  bool shuffle = true;
  // Absent: DataLoaderOptions::seed says which seed a DataLoader takes.
  std::optional<std::int64_t> seed = std::nullopt;
  // All ranks have equally many samples. True: what is left over is left out. False: the first ones
  // of the epoch are there a second time, at the end; evaluations do not count those.
  bool drop_last = false;
};

// Rank r has every num_replicas-th sample of an epoch, beginning with the r-th.
class DistributedSampler {
 public:
  // UsageError for a rank that is not below num_replicas.
  explicit DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options = {});

  const DistributedSamplerOptions& options() const { return options_; }  // ranks filled in
  // The seed where the options give none; 0 until it is set. Holds for later calls of indices().
  void set_default_seed(std::int64_t seed) { default_seed_ = seed; }
  std::int64_t seed() const { return options_.seed.value_or(default_seed_); }
  std::int64_t size() const { return size_; }  // of this rank's part
  // How many of them, at the end, are there for the sake of equal numbers only: 0 or 1, and more
  // only where there are fewer samples than ranks.
  std::int64_t num_repeated() const;
  std::vector<std::int64_t> indices(std::int64_t epoch) const;
  // What is behind the first `had` samples of the epoch's order, whoever had them, dealt as if it
  // were an epoch of its own: a job that goes on with another number of ranks.
  std::vector<std::int64_t> rest_of(std::int64_t epoch, std::int64_t had) const;

 private:
  std::int64_t dataset_size_;
  DistributedSamplerOptions options_;
  std::int64_t default_seed_ = 0;
  std::int64_t size_;
};

}  // namespace cairn

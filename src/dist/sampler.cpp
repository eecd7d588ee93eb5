#include "cairn/dist/sampler.h"

#include <torch/torch.h>

#include <algorithm>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

namespace cairn {
namespace {

// The number of samples of each rank, if all ranks together have `samples`.
std::int64_t part_of(std::int64_t samples, const DistributedSamplerOptions& options) {
  const std::int64_t replicas = *options.num_replicas;
  return options.drop_last ? samples / replicas : (samples + replicas - 1) / replicas;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options)
    : dataset_size_(dataset_size), options_(options), size_(0) {
  if (!options_.num_replicas) options_.num_replicas = dist::world_size();
  if (!options_.rank) options_.rank = dist::rank();
  const std::int64_t replicas = *options_.num_replicas;
  if (replicas < 1 || *options_.rank < 0 || *options_.rank >= replicas) {
    throw UsageError("DistributedSampler: rank " + std::to_string(*options_.rank) +
                     " is not in 0 to num_replicas - 1, " + std::to_string(replicas - 1));
  }
  size_ = part_of(dataset_size, options_);
}

std::int64_t DistributedSampler::num_repeated() const {
  if (options_.drop_last) return 0;
  // This rank has the positions rank, rank + replicas, ... Counts those from dataset_size_ on.
  const std::int64_t replicas = *options_.num_replicas;
  const std::int64_t own = std::max<std::int64_t>(0, dataset_size_ - *options_.rank + replicas - 1);
  return size_ - std::min(size_, own / replicas);
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  return remaining_indices(epoch, 0);
}

std::vector<std::int64_t> DistributedSampler::remaining_indices(std::int64_t epoch,
                                                                std::int64_t had) const {
  const torch::NoGradGuard no_grad;
  at::Tensor order;
  if (options_.shuffle) {
    const auto of_epoch = static_cast<std::uint64_t>(seed() + epoch);
    order = at::randperm(dataset_size_, at::detail::createCPUGenerator(of_epoch), at::kLong);
  } else {
    order = at::arange(dataset_size_, at::kLong);
  }
  const auto* all = order.data_ptr<std::int64_t>();
  const std::int64_t size = part_of(std::max<std::int64_t>(0, dataset_size_ - had), options_);
  std::vector<std::int64_t> own;
  own.reserve(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    own.push_back(all[(had + *options_.rank + i * *options_.num_replicas) % dataset_size_]);
  }
  return own;
}

}  // namespace cairn

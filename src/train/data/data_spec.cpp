#include "train/data/data_spec.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "cairn/error.h"

namespace cairn {

std::int64_t num_samples_in_batch(const DataSpec& spec, const Batch& batch) {
  if (spec.get_num_samples_in_batch) return spec.get_num_samples_in_batch(batch);
  std::optional<std::int64_t> samples;
  for (const at::Tensor& tensor : batch.tensors()) {
    if (tensor.dim() == 0 || (samples && *samples != tensor.size(0))) {
      throw UsageError(
          "cannot tell the number of samples of a batch: dimension 0 of its tensors is absent or "
          "differs. Set DataSpec::get_num_samples_in_batch.");
    }
    samples = tensor.size(0);
  }
  if (!samples) throw UsageError("the data loader gave a batch without tensors");
  return *samples;
}

std::int64_t num_tokens_in_batch(const DataSpec& spec, const Batch& batch) {
  if (spec.get_num_tokens_in_batch) return spec.get_num_tokens_in_batch(batch);
  if (!batch.is_named()) return 0;
  const at::Tensor* ids = batch.find("input_ids");
  return ids == nullptr ? 0 : ids->numel();
}

namespace {

Batch part_of(const Batch& batch, std::int64_t begin, std::int64_t length) {
  return batch.map([&](const at::Tensor& tensor) { return tensor.narrow(0, begin, length); });
}

}  // namespace

std::vector<Batch> split_batch(const DataSpec& spec, const Batch& batch,
                               std::int64_t microbatch_size) {
  if (spec.split_batch) return spec.split_batch(batch, microbatch_size);
  const std::int64_t samples = num_samples_in_batch(spec, batch);
  std::vector<Batch> parts;
  for (std::int64_t begin = 0; begin < samples; begin += microbatch_size) {
    parts.push_back(part_of(batch, begin, std::min(microbatch_size, samples - begin)));
  }
  return parts;
}

Batch first_samples(const DataSpec& spec, const Batch& batch, std::int64_t count) {
  return spec.split_batch ? spec.split_batch(batch, count).front() : part_of(batch, 0, count);
}

std::optional<std::int64_t> epoch_length(const DataSpec& spec, std::int64_t subset) {
  const std::optional<std::int64_t> batches = spec.dataloader->num_batches();
  if (subset < 0) return batches;
  return batches ? std::min(*batches, subset) : subset;
}

}  // namespace cairn

#include <fmt/format.h>
#include <torch/torch.h>

#include <cstring>
#include <vector>

#include "cairn/error.h"
#include "cairn/train/data.h"

#include "train/data/batch_memory.h"

namespace cairn {
namespace {

// The tensor of a batch of `count` samples, of which `sample` is one.
at::Tensor room_for(const at::Tensor& sample, std::int64_t count) {
  if (!sample.defined()) throw UsageError("SampleDataset::get() gave an undefined tensor");
  std::vector<std::int64_t> sizes = {count};
  sizes.insert(sizes.end(), sample.sizes().begin(), sample.sizes().end());
  if (fits_batch_memory(sample)) return empty_for_batch(sizes, sample.scalar_type());
  return at::empty(sizes, sample.options().requires_grad(false));
}

std::string describe(at::IntArrayRef sizes, at::ScalarType dtype) {
  return fmt::format("{} of {}", c10::toString(dtype), fmt::join(sizes, "x"));
}

[[noreturn]] void refuse(std::int64_t index, const std::string& difference) {
  throw UsageError(fmt::format(
      "SampleDataset: sample {} has {}, unlike the first sample of its batch. Make all samples "
      "alike, or derive from Dataset and override get_batch()",
      index, difference));
}

void put(const at::Tensor& sample, const at::Tensor& batch, std::int64_t row, std::int64_t index) {
  const bool is_alike = sample.defined() && sample.sizes() == batch.sizes().slice(1) &&
                        sample.scalar_type() == batch.scalar_type();
  if (!is_alike) {
    refuse(index, sample.defined() ? describe(sample.sizes(), sample.scalar_type())
                                   : std::string("an undefined tensor"));
  }
  const bool has_bytes_of_row = fits_batch_memory(sample) && batch.is_cpu() &&
                                sample.is_contiguous() && !sample.is_conj() && !sample.is_neg();
  if (!has_bytes_of_row) {
    batch.select(0, row).copy_(sample);
    return;
  }
  // A tenth of the time of copy_(), which counts if samples are small.
  const std::size_t bytes = sample.nbytes();
  if (bytes == 0) return;
  std::memcpy(static_cast<std::byte*>(batch.data_ptr()) + static_cast<std::size_t>(row) * bytes,
              sample.data_ptr(), bytes);
}

}  // namespace

Batch SampleDataset::get_batch(std::span<const std::int64_t> indices) const {
  return get_batch_in_epoch(indices, 0);
}

Batch SampleDataset::get_batch_in_epoch(std::span<const std::int64_t> indices,
                                        std::int64_t epoch) const {
  const torch::NoGradGuard no_grad;
  Batch batch;
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const std::int64_t index = indices[row];
    const Batch sample = get(index, epoch);
    if (row == 0) {
      batch = sample.map([&](const at::Tensor& tensor) {
        return room_for(tensor, static_cast<std::int64_t>(indices.size()));
      });
    }
    if (sample.names() != batch.names() || sample.size() != batch.size()) {
      refuse(index, "other tensors");
    }
    for (std::size_t i = 0; i < batch.size(); ++i)
      put(sample[i], batch[i], static_cast<std::int64_t>(row), index);
  }
  return batch;
}

}  // namespace cairn

#include "train/optimizer/l2_norm.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>

#include "train/fused/fused_step.h"

namespace cairn {
namespace {

// The L2 norm, rounded as PyTorch 2 rounds it on x86: squares are summed in eight lanes, and then
// the lanes are added in order. libtorch 1.13 fuses product and sum, which changes the last bit.
// optim/adam.cpp says why a last bit can matter. Larger tensors are split among threads and have no
// fixed order.
constexpr std::int64_t kLargestInOneThread = 32768;

bool is_summed_in_lanes(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous() &&
         tensor.numel() < kLargestInOneThread;
}

float norm_in_lanes(const at::Tensor& tensor) {
  constexpr std::size_t kLanes = 8;
  const std::span<const float> values(tensor.data_ptr<float>(),
                                      static_cast<std::size_t>(tensor.numel()));
  const std::size_t in_lanes = values.size() - values.size() % kLanes;
  std::array<float, kLanes> lanes{};
  for (std::size_t i = 0; i < in_lanes; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane] * values[i + lane];
    }
  }
  float sum = std::accumulate(lanes.begin(), lanes.end(), 0.0F);
  for (const float value : values.subspan(in_lanes)) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

}  // namespace

at::Tensor l2_norm(const at::Tensor& tensor) {
  if (!is_summed_in_lanes(tensor)) return tensor.norm(2);
  return at::full({}, norm_in_lanes(tensor), tensor.options());
}

bool are_a_list(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(tensors, [&](const at::Tensor& tensor) {
    return tensor.numel() != 0 && !tensor.is_cpu() && tensor.device() == tensors.front().device() &&
           fused::can_fuse(tensor, {}, {});
  });
}

std::vector<at::Tensor> l2_norms(const std::vector<at::Tensor>& tensors) {
  if (are_a_list(tensors)) return at::_foreach_norm(tensors, 2);
  std::vector<at::Tensor> norms(tensors.size());
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_summed_in_lanes(tensors[i])) {
      norms[i] = at::empty({}, tensors[i].options());
      small.push_back(i);
    } else {
      norms[i] = tensors[i].norm(2);
    }
  }
  at::parallel_for(0, static_cast<std::int64_t>(small.size()), /*grain_size=*/8,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t k = begin; k < end; ++k) {
                       const std::size_t i = small[static_cast<std::size_t>(k)];
                       *norms[i].data_ptr<float>() = norm_in_lanes(tensors[i]);
                     }
                   });
  for (at::Tensor& norm : norms) {
    norm = norm.to(norms.front().device());
  }
  return norms;
}

}  // namespace cairn

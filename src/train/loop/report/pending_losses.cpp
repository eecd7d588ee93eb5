#include "train/loop/report/pending_losses.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>

namespace cairn {
namespace {

// The device that all values are on; the CPU if there are several.
c10::Device device_of(const NamedValues& values) {
  const c10::Device first = values.front().second.device();
  const bool is_same = std::ranges::all_of(
      values, [&](const auto& named) { return named.second.device() == first; });
  return is_same ? first : c10::Device(at::kCPU);
}

// libtorch 1.13 can wait only for all work of a stream.
template <class Event>
void wait_for(Event& event) {
  if constexpr (requires { event.synchronize(); }) {
    event.synchronize();
  } else {
    const c10::impl::VirtualGuardImpl guard(event.device_type());
    guard.synchronizeStream(guard.getStream(event.device()));
  }
}

}  // namespace

void PendingLosses::add(std::int64_t batch, const NamedValues& losses, const NamedValues& metrics) {
  Pending pending{.batch = batch, .values = losses, .count_of_losses = losses.size(), .copied = {}};
  pending.values.insert(pending.values.end(), metrics.begin(), metrics.end());
  if (pending.values.empty()) return;
  const c10::Device device = device_of(pending.values);
  if (device.is_cpu()) {
    batches_.push_back(std::move(pending));
    return;
  }
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> scalars;
  for (const auto& [name, value] : pending.values)
    scalars.push_back(value);
  pending.source = at::stack(scalars);
  // Only a copy into page-locked memory goes on while the host does other work.
  const at::Tensor copy =
      at::empty(pending.source.sizes(),
                at::TensorOptions(pending.source.scalar_type()).pinned_memory(device.is_cuda()));
  copy.copy_(pending.source, /*non_blocking=*/true);
  pending.copied.emplace(device.type());
  pending.copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  for (std::size_t i = 0; i < pending.values.size(); ++i)
    pending.values[i].second = copy[static_cast<std::int64_t>(i)];
  batches_.push_back(std::move(pending));
}

BatchLosses PendingLosses::take_first() {
  Pending first = std::move(batches_.front());
  batches_.pop_front();
  if (first.copied && !first.copied->query()) wait_for(*first.copied);
  BatchLosses taken{.batch = first.batch, .losses = {}, .metrics = {}};
  for (const auto& [name, value] : first.values) {
    NamedDoubles& kind = taken.losses.size() < first.count_of_losses ? taken.losses : taken.metrics;
    kind.emplace_back(name, value.item<double>());
  }
  return taken;
}

std::vector<BatchLosses> PendingLosses::take_arrived() {
  std::vector<BatchLosses> taken;
  while (!batches_.empty()) {
    const auto& copied = batches_.front().copied;
    if (copied && !copied->query() && batches_.size() <= kMaxPending) break;
    taken.push_back(take_first());
  }
  return taken;
}

std::vector<BatchLosses> PendingLosses::take_all() {
  std::vector<BatchLosses> taken;
  while (!batches_.empty())
    taken.push_back(take_first());
  return taken;
}

std::optional<BatchLosses> PendingLosses::take_oldest(bool not_newest) {
  if (batches_.size() <= (not_newest ? 1 : 0)) return std::nullopt;
  return take_first();
}

}  // namespace cairn

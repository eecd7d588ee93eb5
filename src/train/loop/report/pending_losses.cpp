#include "train/loop/report/pending_losses.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>

namespace cairn {
namespace {

// The device that all losses are on; the CPU if there are several devices or types.
c10::Device device_of(const NamedValues& losses) {
  const at::Tensor& first = losses.front().second;
  const bool are_alike = std::ranges::all_of(losses, [&](const auto& named) {
    return named.second.device() == first.device() &&
           named.second.scalar_type() == first.scalar_type();
  });
  return are_alike ? first.device() : c10::Device(at::kCPU);
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

void PendingLosses::add(std::int64_t batch, const NamedValues& losses) {
  if (losses.empty()) return;
  const c10::Device device = device_of(losses);
  if (device.is_cpu()) {
    batches_.push_back({.batch = batch, .losses = losses, .copied = std::nullopt});
    return;
  }
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> scalars;
  for (const auto& [name, loss] : losses)
    scalars.push_back(loss);
  Pending pending{.batch = batch, .losses = losses, .source = at::stack(scalars), .copied = {}};
  // Only a copy into page-locked memory goes on while the host does other work.
  const at::Tensor copy =
      at::empty(pending.source.sizes(),
                at::TensorOptions(pending.source.scalar_type()).pinned_memory(device.is_cuda()));
  copy.copy_(pending.source, /*non_blocking=*/true);
  pending.copied.emplace(device.type());
  pending.copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  for (std::size_t i = 0; i < losses.size(); ++i)
    pending.losses[i].second = copy[static_cast<std::int64_t>(i)];
  batches_.push_back(std::move(pending));
}

BatchLosses PendingLosses::take_first() {
  Pending first = std::move(batches_.front());
  batches_.pop_front();
  if (first.copied && !first.copied->query()) wait_for(*first.copied);
  BatchLosses taken{.batch = first.batch, .losses = {}};
  for (const auto& [name, loss] : first.losses)
    taken.losses.emplace_back(name, loss.item<double>());
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

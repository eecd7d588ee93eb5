#include "callbacks/memory_figures.h"

#include <torch/torch.h>
#include <torch/version.h>

#include <array>
#include <functional>

#include "io/machine_usage.h"

// libtorch 2.9 gives the figures of every device's allocator without the headers of the device.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
#define CAIRN_HAS_DEVICE_ALLOCATOR
#include <c10/core/CachingDeviceAllocator.h>
#endif

namespace cairn {
namespace {

struct MemoryFigure {  // c10's Stat
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;
  std::int64_t freed = 0;
};
// The counts of an allocator. Some figures are counted in total, and for small and for large
// blocks.
struct AllocatorFigures {
  using Pools = std::array<MemoryFigure, 3>;
  std::array<std::pair<const char*, Pools>, 9> by_pool = {{{"allocation", {}},
                                                           {"segment", {}},
                                                           {"active", {}},
                                                           {"inactive_split", {}},
                                                           {"allocated_bytes", {}},
                                                           {"reserved_bytes", {}},
                                                           {"active_bytes", {}},
                                                           {"inactive_split_bytes", {}},
                                                           {"requested_bytes", {}}}};
  std::array<std::pair<const char*, MemoryFigure>, 2> oversize = {
      {{"oversize_allocations", {}}, {"oversize_segments", {}}}};
  std::array<std::pair<const char*, std::int64_t>, 6> counts = {{{"num_alloc_retries", 0},
                                                                 {"num_ooms", 0},
                                                                 {"num_sync_all_streams", 0},
                                                                 {"num_device_alloc", 0},
                                                                 {"num_device_free", 0},
                                                                 {"max_split_size", 0}}};
};

using AddFigure = std::function<void(const std::string& name, std::int64_t value)>;

void add_figure(const std::string& name, const MemoryFigure& figure, const AddFigure& add) {
  add(name + ".current", figure.current);
  add(name + ".peak", figure.peak);
  add(name + ".allocated", figure.allocated);
  add(name + ".freed", figure.freed);
}

void add_all(const AllocatorFigures& figures, const AddFigure& add) {
  static constexpr std::array kPools = {".all", ".small_pool", ".large_pool"};
  for (const auto& [name, pools] : figures.by_pool) {
    for (std::size_t i = 0; i < kPools.size(); ++i)
      add_figure(std::string(name) + kPools[i], pools[i], add);
  }
  for (const auto& [name, figure] : figures.oversize)
    add_figure(name, figure, add);
  for (const auto& [name, count] : figures.counts)
    add(name, count);
}

void add_host(const ProcessMemory& memory, const AddFigure& add) {
  add("resident_bytes.host.current", static_cast<std::int64_t>(memory.resident_bytes));
  add("resident_bytes.host.peak", static_cast<std::int64_t>(memory.peak_resident_bytes));
}

#ifdef CAIRN_HAS_DEVICE_ALLOCATOR
// A template, since both structs of c10 have moved to another namespace once.
MemoryFigure figure_of(const auto& stat) {
  return {stat.current, stat.peak, stat.allocated, stat.freed};
}

AllocatorFigures::Pools pools_of(const auto& stats) {
  return {figure_of(stats[0]), figure_of(stats[1]), figure_of(stats[2])};
}

AllocatorFigures figures_of(const auto& stats) {
  AllocatorFigures figures;
  const std::array pools = {&stats.allocation,      &stats.segment,
                            &stats.active,          &stats.inactive_split,
                            &stats.allocated_bytes, &stats.reserved_bytes,
                            &stats.active_bytes,    &stats.inactive_split_bytes,
                            &stats.requested_bytes};
  for (std::size_t i = 0; i < pools.size(); ++i)
    figures.by_pool[i].second = pools_of(*pools[i]);
  figures.oversize[0].second = figure_of(stats.oversize_allocations);
  figures.oversize[1].second = figure_of(stats.oversize_segments);
  const std::array counts = {stats.num_alloc_retries,    stats.num_ooms,
                             stats.num_sync_all_streams, stats.num_device_alloc,
                             stats.num_device_free,      stats.max_split_size};
  for (std::size_t i = 0; i < counts.size(); ++i)
    figures.counts[i].second = counts[i];
  return figures;
}

c10::DeviceAllocator* allocator_of(const c10::Device& device) {
  if (device.is_cpu()) return nullptr;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

bool has_device_figures(const c10::Device& device) { return allocator_of(device) != nullptr; }

void add_device(const c10::Device& device, const AddFigure& add) {
  add_all(figures_of(allocator_of(device)->getDeviceStats(device.index())), add);
}
#else
bool has_device_figures(const c10::Device& /*device*/) { return false; }
void add_device(const c10::Device& /*device*/, const AddFigure& /*add*/) {}
#endif

}  // namespace

bool has_device_memory_figures(const c10::Device& device) { return has_device_figures(device); }

std::map<std::string, std::int64_t> memory_figures_of(const c10::Device& device) {
  std::map<std::string, std::int64_t> figures;
  const AddFigure add = [&](const std::string& name, std::int64_t value) { figures[name] = value; };
  if (const auto host = process_memory()) add_host(*host, add);
  if (has_device_figures(device)) add_device(device, add);
  return figures;
}

std::set<std::string> memory_figure_names() {
  std::set<std::string> names;
  const AddFigure add = [&](const std::string& name, std::int64_t) { names.insert(name); };
  add_host({}, add);
  add_all({}, add);
  return names;
}

}  // namespace cairn

// Figures of memory under the names of torch.cuda.memory_stats().
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace cairn {

// Whether this libtorch gives figures of that device's memory.
bool has_device_memory_figures(const c10::Device& device);

// The host's figures, and those of `device` if there are some. Sizes are in bytes.
std::map<std::string, std::int64_t> memory_figures_of(const c10::Device& device);

// All names that memory_figures_of() knows for any device.
std::set<std::string> memory_figure_names();

}  // namespace cairn

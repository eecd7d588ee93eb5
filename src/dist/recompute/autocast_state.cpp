#include "dist/recompute/autocast_state.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>
#include <torch/version.h>

namespace cairn {
namespace {

// libtorch 2.4 replaced the functions for each kind of device with functions for any device.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
at::DeviceType kind_of(bool on_cpu) { return on_cpu ? at::kCPU : at::kCUDA; }
bool is_enabled(bool on_cpu) { return at::autocast::is_autocast_enabled(kind_of(on_cpu)); }
void set_enabled(bool on_cpu, bool enabled) {
  at::autocast::set_autocast_enabled(kind_of(on_cpu), enabled);
}
at::ScalarType dtype(bool on_cpu) { return at::autocast::get_autocast_dtype(kind_of(on_cpu)); }
void set_dtype(bool on_cpu, at::ScalarType dtype) {
  at::autocast::set_autocast_dtype(kind_of(on_cpu), dtype);
}
#else
bool is_enabled(bool on_cpu) {
  return on_cpu ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
void set_enabled(bool on_cpu, bool enabled) {
  on_cpu ? at::autocast::set_cpu_enabled(enabled) : at::autocast::set_enabled(enabled);
}
at::ScalarType dtype(bool on_cpu) {
  return on_cpu ? at::autocast::get_autocast_cpu_dtype() : at::autocast::get_autocast_gpu_dtype();
}
void set_dtype(bool on_cpu, at::ScalarType dtype) {
  on_cpu ? at::autocast::set_autocast_cpu_dtype(dtype)
         : at::autocast::set_autocast_gpu_dtype(dtype);
}
#endif

AutocastState::Kind kind_now(bool on_cpu) {
  return {.is_enabled = is_enabled(on_cpu), .dtype = dtype(on_cpu)};
}
void make_now(bool on_cpu, const AutocastState::Kind& kind) {
  set_enabled(on_cpu, kind.is_enabled);
  set_dtype(on_cpu, kind.dtype);
}

}  // namespace

AutocastState AutocastState::current() {
  return {.cpu = kind_now(/*on_cpu=*/true),
          .cuda = kind_now(/*on_cpu=*/false),
          .uses_cache = at::autocast::is_autocast_cache_enabled()};
}

void AutocastState::make_current() const {
  make_now(/*on_cpu=*/true, cpu);
  make_now(/*on_cpu=*/false, cuda);
  at::autocast::set_autocast_cache_enabled(uses_cache);
}

AutocastScope::AutocastScope(const AutocastState& state) : before_(AutocastState::current()) {
  state.make_current();
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  // Casts of the weights, cached for this forward, are stale after the next step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  before_.make_current();
}

}  // namespace cairn

#include "cairn/train/rng.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <limits>
#include <optional>
#include <random>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "dist/recompute/generator_states.h"
#include "train/state/random/base_seed.h"
#include "train/state/random/mersenne_state.h"
#include "train/state/random/rng_check.h"

namespace cairn {
namespace {

// The states that Python's generators would have. Global, because torch's generators are global,
// and both kinds are read and set together.
struct PythonStates {
  Value python;
  Value numpy;
};

PythonStates& python_states() {
  static PythonStates states = [] {  // Never seeded: as if with torch's initial seed.
    const std::uint64_t seed = at::detail::getDefaultCPUGenerator().current_seed();
    return PythonStates{python_random_state(static_cast<std::uint32_t>(seed)),
                        numpy_random_state(static_cast<std::uint32_t>(seed))};
  }();
  return states;
}

// The current device's generator, if there is a device.
std::optional<at::Generator> device_generator() {
  if (!torch::cuda::is_available()) return std::nullopt;
  const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
  return at::globalContext().defaultGenerator(cuda.getDevice());
}

at::Tensor state_tensor(const Value& state) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 20;  // The largest state has some 5,000.
  if (!state.is_tensor() || state.as_tensor().dtype != DType::kUInt8) {
    throw MismatchError("torch's generator state is not a uint8 tensor");
  }
  if (state.as_tensor().numel() > kMaxBytes) {
    throw MismatchError("torch's generator state has " + std::to_string(state.as_tensor().numel()) +
                        " bytes, more than any generator has");
  }
  return tensor_of(state.as_tensor()).contiguous();
}

// The state as a tensor. Throws MismatchError if a CPU generator would refuse it.
at::Tensor checked_cpu_state(const Value& state) {
  at::Tensor tensor = state_tensor(state);
  try {
    set_generator_state(at::detail::createCPUGenerator(), tensor);
  } catch (const c10::Error& e) {
    throw MismatchError("torch's CPU generator refuses the state: " +
                        std::string(e.what_without_backtrace()));
  }
  return tensor;
}

struct Restored {
  std::optional<at::Tensor> torch, cuda;
  std::optional<Value> python, numpy;
};

template <class Check>
auto checked(const Value& entry, const char* key, RngCheck& found, Check check)
    -> std::optional<decltype(check(entry))> {
  const Value* state = entry.find(key);
  if (state == nullptr) {
    found.warnings.push_back("the checkpoint has no \"" + std::string(key) +
                             "\" random state; the present one stays");
    return std::nullopt;
  }
  try {
    return check(*state);
  } catch (const MismatchError& e) {
    found.misfits.push_back("rng/0/" + std::string(key) + ": " + e.what());
    return std::nullopt;
  }
}

void check_device(const Value& entry, RngCheck& found, Restored& restored) {
  const Value* state = entry.find("cuda");
  const auto generator = device_generator();
  if (generator && state == nullptr) {
    found.warnings.emplace_back("the checkpoint has no CUDA random state; it will not be exact");
  } else if (!generator && state != nullptr) {
    found.warnings.emplace_back("the checkpoint's CUDA random state is ignored: no CUDA here");
  } else if (generator) {
    restored.cuda = checked(entry, "cuda", found, state_tensor);
    // The state has 816 bytes before PyTorch 2.1, and 16 bytes since. One cannot be converted to
    // the other.
    if (restored.cuda && restored.cuda->numel() != generator_state(*generator).numel()) {
      found.warnings.push_back("the checkpoint's CUDA random state has " +
                               std::to_string(restored.cuda->numel()) +
                               " bytes, which this libtorch does not accept; it is ignored");
      restored.cuda.reset();
    }
  }
}

Restored check(const Value& states, bool is_of_own_rank, RngCheck& found) {
  Restored restored;
  if (!states.is_list() && !states.is_tuple()) {
    found.misfits.push_back("rng is a " + std::string(states.type_name()) + ", not a list");
    return restored;
  }
  if (states.as_items().empty()) {
    found.warnings.emplace_back("the checkpoint has no random state of this rank");
    return restored;
  }
  const auto ranks = static_cast<std::int64_t>(states.as_items().size());
  const std::int64_t expected = is_of_own_rank ? 1 : dist::world_size();
  if (ranks != expected && dist::world_size() > 1) {
    found.warnings.push_back(
        "the checkpoint has random states of " + std::to_string(ranks) +
        " ranks, and this job has " + std::to_string(dist::world_size()) +
        ": each rank takes its own, or keeps its present state if it has none there");
  } else if (ranks > 1 && dist::world_size() == 1) {
    found.warnings.push_back("the checkpoint has random states of " + std::to_string(ranks) +
                             " ranks; only the first is restored");
  }
  const Value& entry = states.as_items().front();
  if (!entry.is_dict()) {
    found.misfits.push_back("rng/0 is a " + std::string(entry.type_name()) + ", not a dict");
    return restored;
  }
  restored.torch = checked(entry, "torch", found, checked_cpu_state);
  restored.python = checked(entry, "python", found, checked_python_state);
  restored.numpy = checked(entry, "numpy", found, checked_numpy_state);
  check_device(entry, found, restored);
  return restored;
}

}  // namespace

void seed_all(std::int64_t seed) {
  if (seed < 0 || seed > std::numeric_limits<std::uint32_t>::max()) {
    throw UsageError("seed " + std::to_string(seed) + " is not in [0, 2^32 - 1]");
  }
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  python_states() = {python_random_state(static_cast<std::uint32_t>(seed)),
                     numpy_random_state(static_cast<std::uint32_t>(seed))};
}

std::int64_t random_seed() { return static_cast<std::uint32_t>(std::random_device()()); }

Value rng_states() {
  Dict entry = {{"python", python_states().python},
                {"numpy", python_states().numpy},
                {"torch", cpu_rng_state()}};
  if (const auto generator = device_generator()) {
    entry.set("cuda", view_of(generator_state(*generator)));
  }
  return List{entry};
}

RngCheck check_rng_states(const Value& states, bool is_of_own_rank) {
  RngCheck found;
  check(states, is_of_own_rank, found);
  return found;
}

bool restore_rng_states(const Value& states) {
  RngCheck found;
  const Restored restored = check(states, /*is_of_own_rank=*/false, found);
  if (!found.misfits.empty()) {
    std::string message = "the random states do not fit, nothing was changed:";
    for (const std::string& reason : found.misfits) {
      message += "\n  " + reason;
    }
    throw MismatchError(message);
  }
  if (states.as_items().empty()) return false;
  if (restored.torch) set_generator_state(at::detail::getDefaultCPUGenerator(), *restored.torch);
  if (restored.python) python_states().python = *restored.python;
  if (restored.numpy) python_states().numpy = *restored.numpy;
  if (restored.cuda) set_generator_state(*device_generator(), *restored.cuda);
  return true;
}

Value cpu_rng_state() { return view_of(generator_state(at::detail::getDefaultCPUGenerator())); }

void set_cpu_rng_state(const Value& state) {
  set_generator_state(at::detail::getDefaultCPUGenerator(), checked_cpu_state(state));
}

void draw_base_seed() { at::empty({}, at::kLong).random_(); }

}  // namespace cairn

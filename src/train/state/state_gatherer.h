// Gathering the state of a run as a Value, again and again: what did not change since the time
// before is compared, and not made anew. Comparing allocates nothing for a tensor.
//
// What is kept is the Value of the time before, and with it the memory of those tensors: for as
// long as the gatherer lives, or until it gathers again. Nothing is believed that cannot be looked
// at: every tensor of a module is compared, each time, in everything that its view was made from.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/train/state_dict.h"

namespace cairn {

class WholeState;

class ModuleGatherer {
 public:
  // What state_dict(module) gives; of one identity() with the time before, if that is still what it
  // gives. Throws as that does. One thread at a time.
  Value gather(const torch::nn::Module& module);

 private:
  // What a tensor was when its view was made. `storage` is alive, because the view holds it; the
  // tensor itself need not be: its address says which names stand for one tensor.
  struct Seen {
    const void* tensor = nullptr;
    const void* storage = nullptr;
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t keys = 0;  // its dispatch keys: layout, device, whether conjugated or negated
    std::int64_t offset = 0;
    at::ScalarType type = at::ScalarType::Undefined;
    std::uint32_t dimensions = 0;
    std::size_t name_size = 0;

    bool operator==(const Seen&) const = default;
  };
  // A place in what was seen.
  struct Cursor {
    std::size_t tensor = 0;
    std::size_t extent = 0;
    std::size_t name = 0;
  };

  static Seen look_at(const at::Tensor& tensor, std::size_t name_size);
  bool is_unchanged(const torch::nn::Module& module) const;
  bool is_next(Cursor& at, const std::string& prefix, const std::string& name,
               const at::Tensor& tensor) const;
  bool remember(const torch::nn::Module& module);
  void forget();

  Value known_;  // None: nothing
  std::vector<Seen> seen_;
  std::vector<std::int64_t> extents_;  // of each: its sizes, its strides
  std::string names_;                  // one behind the other
  std::vector<c10::Device> devices_;   // other than the CPU, each once
  std::weak_ptr<const int> thread_;    // whose views share storages (view_of())
};

class StateGatherer {
 public:
  // What cairn::checkpoint_value() gives, with `rng` for what rng_of_all_ranks() gave; of a sharded
  // run with the tensors of `whole`.
  Value checkpoint_value(const State& state, Value rng, WholeState& whole,
                         const SaveCheckpointOptions& options, Logger* logger);

 private:
  ModuleGatherer model_;
};

// State::state_dict() and State::model_state_dict(), with `model` for the state of its module.
Value full_state_dict(const State& state, Value model);
Value weights_state_dict(const State& state, Value model);

}  // namespace cairn

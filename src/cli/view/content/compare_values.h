// Compares two objects part by part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/value.h"

#include "cli/view/content/compare_tensors.h"

namespace cairn::cli {

struct CompareOptions {
  // Also compare parts that differ from run to run by themselves: see differs_in_each_run().
  bool wall_clock = false;
  std::optional<double> atol = std::nullopt;  // as for compare_tensors(); also for other numbers
  bool tensors_only = false;
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;  // from any thread
};

struct DifferentTensor {
  std::string path;
  const TensorView* a = nullptr;
  const TensorView* b = nullptr;
  // For quantized tensors, between the integers. nullopt if shapes or kinds of dtypes differ.
  std::optional<TensorDistance> distance = std::nullopt;
  bool has_other_scale = false;  // quantized, and the integers mean other numbers
};

struct DifferentValue {
  std::string path;
  const Value* a;
  const Value* b;
};

// The pointers point into the compared objects.
struct Differences {
  std::vector<std::string> only_in_a = {};
  std::vector<std::string> only_in_b = {};
  std::vector<DifferentTensor> tensors = {};
  // Other leaves, or a tensor against another kind of value.
  std::vector<DifferentValue> values = {};
  std::uint64_t same_tensors = 0;
  std::uint64_t same_values = 0;
  std::uint64_t ignored = 0;  // number of differs_in_each_run() leaves, on the side with more

  bool empty() const {
    return only_in_a.empty() && only_in_b.empty() && tensors.empty() && values.empty();
  }
};

// Matches leaves by path. A sparse tensor is matched by its parts: "w/indices", "w/values". A
// DTensor is matched by its shard, "w", and by its distribution, "w (placement)". A list equals a
// tuple, and a dict an OrderedDict, because not every format distinguishes them. A different dtype
// is a difference, unless there is a tolerance.
Differences compare_values(const Value& a, const Value& b, const CompareOptions& options);

// Whether a part differs in each run, whatever was trained: durations (*_wct), and the list of
// files that a CheckpointSaver has written.
bool differs_in_each_run(const std::string& path);

}  // namespace cairn::cli

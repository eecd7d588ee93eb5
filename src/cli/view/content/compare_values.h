// What differs between two objects, part by part.
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
  // Also what differs from run to run by itself: see is_of_the_run().
  bool wall_clock = false;
  std::optional<double> atol = std::nullopt;  // as compare_tensors(); of other numbers, too
  bool tensors_only = false;
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;  // from any thread
};

struct DifferentTensor {
  std::string path;
  const TensorView* a = nullptr;
  const TensorView* b = nullptr;
  // Of quantized tensors, between the integers. Nothing when shapes or kinds of dtypes differ.
  std::optional<TensorDistance> distance = std::nullopt;
  bool has_other_scale = false;  // quantized, and the integers stand for other numbers
};

struct DifferentValue {
  std::string path;
  const Value* a;
  const Value* b;
};

// Pointers are into the objects compared.
struct Differences {
  std::vector<std::string> only_in_a = {};
  std::vector<std::string> only_in_b = {};
  std::vector<DifferentTensor> tensors = {};
  std::vector<DifferentValue> values = {};  // other leaves, or a tensor against something else
  std::uint64_t same_tensors = 0;
  std::uint64_t same_values = 0;
  std::uint64_t ignored = 0;  // leaves that are is_of_the_run(), of the side with more

  bool empty() const {
    return only_in_a.empty() && only_in_b.empty() && tensors.empty() && values.empty();
  }
};

// Matches leaves by path. A sparse tensor is matched by its parts: "w/indices", "w/values". A
// DTensor is matched by its shard, "w", and by how it is distributed, "w (placement)". Lists and
// tuples, dicts and OrderedDicts are not told apart, as not every format does. A dtype that differs
// is a difference, unless there is a tolerance.
Differences compare_values(const Value& a, const Value& b, const CompareOptions& options);

// Whether a part is another one in each run, whatever was trained: durations (*_wct), and the list
// of files that a CheckpointSaver has written.
bool is_of_the_run(const std::string& path);

}  // namespace cairn::cli

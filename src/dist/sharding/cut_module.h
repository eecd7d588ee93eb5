// A module cut into units: the assignment of its parameters to units.
//
//  1. Unit 0, the root, has the parameters that are in no Sharded<>. Each Sharded<> is a unit, in
//     the order in which the module names them.
//  2. A parameter that several units use belongs to the root, since these units are whole
//     (gathered) at different times.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cairn/dist/sharding.h"

#include "dist/sharding/shard_unit.h"

namespace cairn::dist {

class CutModule {
 public:
  static constexpr std::size_t kRoot = 0;

  // Throws UnsupportedError for parameters that cannot be sharded.
  CutModule(Group& group, const MeshShape& shape, torch::nn::Module& module,
            const FSDPConfig& config);
  CutModule(const CutModule&) = delete;
  CutModule& operator=(const CutModule&) = delete;

  const ShardMesh& mesh() const { return mesh_; }
  const std::vector<std::unique_ptr<ShardUnit>>& units() const { return units_; }
  // The Sharded<> of each unit; null for the root.
  const std::vector<ShardedUnit*>& wrapped() const { return wrapped_; }
  std::optional<at::ScalarType> compute_dtype() const { return dtypes_.compute; }

  // Finds a parameter by its identity. Null for a parameter of another module.
  const ShardParameter* find(const at::Tensor& parameter) const;
  // For messages.
  std::string text_of(std::size_t unit) const;

  // Calls ShardUnit::finish_gather(), and updates peak_whole_bytes().
  void finish_gather(std::size_t unit);
  std::int64_t peak_whole_bytes() const { return peak_whole_bytes_; }
  // Calls ShardUnit::release() of all units.
  void release();

 private:
  struct Collected;

  static void collect(const torch::nn::Module& module, const std::string& name, std::size_t unit,
                      Collected& found);

  const ShardMesh mesh_;
  const UnitDtypes dtypes_;
  std::vector<ShardedUnit*> wrapped_;
  std::vector<std::unique_ptr<ShardUnit>> units_;
  // For each parameter its unit, and its index in that unit.
  std::unordered_map<const c10::TensorImpl*, std::pair<std::size_t, std::size_t>> places_;
  std::int64_t peak_whole_bytes_ = 0;
};

}  // namespace cairn::dist

// The parameters of one unit, which are gathered and released together. While they are gathered,
// the unit is whole.
//
//  1. At rest each parameter of the module has only this rank's rows, in memory of their own. A
//     rank with fewer rows, or none, sends padding after its rows, so that all ranks send equally
//     many bytes.
//  2. begin_gather() sends the rows to all ranks that share the whole, as bytes, in the dtype that
//     the unit computes in. finish_gather() assembles the received rows, and puts the whole
//     elements into the parameters (set_data()). The parameters stay the same objects of libtorch.
//     So the module's members, which hold these objects, compute with the wholes.
//  3. autograd keeps views of the wholes for backward(). So release() frees their memory without
//     libtorch's knowledge. The next gather gives the same storages memory again, with the same
//     elements. The views are valid whenever they are used.
//  4. begin_reduce() takes the gradients of the wholes and sends them (UnitGradients).
//     finish_reduce() puts the averages into the rows' gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dist/sharding/row_exchange.h"
#include "dist/sharding/shard_mesh.h"
#include "dist/sharding/shard_parameter.h"
#include "dist/sharding/unit_dtypes.h"
#include "dist/sharding/unit_gradients.h"

namespace cairn::dist {

class ShardUnit {
 public:
  using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;

  // Cuts the parameters (step 1). They must lie on the mesh's device.
  ShardUnit(const ShardMesh& mesh, std::string name, NamedParameters parameters,
            const UnitDtypes& dtypes);
  ShardUnit(const ShardUnit&) = delete;
  ShardUnit& operator=(const ShardUnit&) = delete;

  const std::string& name() const { return name_; }
  bool is_whole() const { return is_whole_; }
  bool is_coming() const { return gathering_.is_under_way(); }
  bool has_trainable() const;

  void begin_gather();  // Does nothing if the unit is whole, or a gather is under way.
  void finish_gather(const std::string& what);
  void release();  // Also if the gather is still under way.
  // Gathers for the other ranks, and discards what this rank receives.
  void gather_for_others(const std::string& what);

  // The gradients that begin_reduce() sends. A rank that does not contribute sends 0.
  struct Reduce {
    bool contributes = true;
    bool stays_whole = false;
  };
  void begin_reduce(const Reduce& how);
  void finish_reduce(const std::string& what) { gradients_.finish(what); }

  // For each parameter at rest, whether it has a gradient.
  std::vector<bool> have_gradients() const;

  const std::vector<ShardParameter>& parameters() const { return parameters_; }
  std::int64_t whole_bytes() const;  // Counts the wholes, whether they are in memory or not.
  // The dtype in which a unit without inputs computes, and the dtype of the unit's output.
  at::ScalarType stored_dtype() const { return parameters_.front().tensor.scalar_type(); }

 private:
  at::Tensor packed_rows() const;
  void put_together();
  void hold_memory();
  void drop_memory();

  const ShardMesh& mesh_;
  std::string name_;
  std::vector<ShardParameter> parameters_;
  bool is_whole_ = false;
  RowExchange gathering_;
  UnitGradients gradients_;
};

}  // namespace cairn::dist

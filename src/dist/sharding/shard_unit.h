// The parameters of one unit, which are whole together.
//
//  1. At rest each parameter of the module is this rank's rows of it, in memory of their own. Who
//     has fewer rows, or none, sends padding behind them, so that all send equally much.
//  2. begin_gather() sends the rows to all ranks of the whole, as bytes, in the dtype that the unit
//     computes in; finish_gather() puts together what came, and makes the parameters the wholes:
//     the same objects of libtorch with other elements (set_data()), so that whoever has one, as
//     the module's members do, computes with the whole.
//  3. What autograd keeps for backward() are views of the wholes. So release() lets go of their
//     memory behind libtorch's back, and the next gather gives the same storages memory again, with
//     the same elements in it: the views are good again when they are needed.
//  4. begin_reduce() takes the gradients of the wholes and sends them (UnitGradients);
//     finish_reduce() has the averages in the rows' gradients.
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

  // Cuts them (1). They lie on the mesh's device.
  ShardUnit(const ShardMesh& mesh, std::string name, NamedParameters parameters,
            const UnitDtypes& dtypes);
  ShardUnit(const ShardUnit&) = delete;
  ShardUnit& operator=(const ShardUnit&) = delete;

  const std::string& name() const { return name_; }
  bool is_whole() const { return is_whole_; }
  bool is_coming() const { return gathering_.is_under_way(); }
  bool has_trainable() const;

  void begin_gather();  // does nothing when it is whole or coming
  void finish_gather(const std::string& what);
  void release();  // also of what is only coming
  // begin_gather() and what comes is let go of: for the others.
  void gather_for_others(const std::string& what);

  // Of what it sends. Not `contributes`: 0.
  struct Reduce {
    bool contributes = true;
    bool stays_whole = false;
  };
  void begin_reduce(const Reduce& how);
  void finish_reduce(const std::string& what) { gradients_.finish(what); }

  // Whether a parameter at rest has a gradient, of each.
  std::vector<bool> have_gradients() const;

  const std::vector<ShardParameter>& parameters() const { return parameters_; }
  std::int64_t whole_bytes() const;  // of the wholes, whether they are there or not
  // What a unit without inputs computes in and gives.
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

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
//  4. begin_reduce() takes the gradients of the wholes, divided by the number of ranks, and sends
//     each rank its rows (an all-to-all of bytes: what a reduce-scatter sends, of any dtype, which
//     Gloo lacks); finish_reduce() adds what came, in the order of the ranks, then over the
//     replicas, and to the gradients of earlier passes. With each part travels whether the rank had
//     a gradient: one that nobody has stays without, as in one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/tensor.h"

#include "dist/sharding/shard_mesh.h"

namespace cairn::dist {

struct UnitDtypes {
  std::optional<at::ScalarType> compute = std::nullopt;  // default: as the parameters are
  std::optional<at::ScalarType> reduce = std::nullopt;   // default: as they compute
};

class ShardUnit {
 public:
  using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;

  // Cuts them (1). They lie on the mesh's device.
  ShardUnit(const ShardMesh& mesh, std::string name, NamedParameters parameters,
            const UnitDtypes& dtypes);

  const std::string& name() const { return name_; }
  bool is_whole() const { return is_whole_; }
  bool is_coming() const { return gathering_.work != nullptr; }
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
  void finish_reduce(const std::string& what);
  bool is_reducing() const { return reducing_.work != nullptr; }

  // Whether a parameter at rest has a gradient, of each.
  std::vector<bool> have_gradients() const;

  struct Parameter {
    std::string name;
    at::Tensor tensor;  // the module's
    Dims global_shape;
    std::int64_t per_rank = 0;
    std::int64_t begin = 0;
    std::int64_t count = 0;
    at::ScalarType compute = at::kFloat;
    at::Tensor whole = {};          // its storage has memory while it is whole
    at::Tensor own = {};            // while it is whole: the rows
    at::Tensor kept_gradient = {};  // while it is whole: of earlier passes
    std::int64_t row_elements() const;
    at::Tensor rows() const { return own.defined() ? own : tensor; }
  };
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::int64_t whole_bytes() const;  // of the wholes, whether they are there or not
  // What a unit without inputs computes in and gives.
  at::ScalarType stored_dtype() const { return parameters_.front().tensor.scalar_type(); }

 private:
  struct Exchange {
    WorkPtr work = {};
    std::vector<at::Tensor> sent = {};
    std::vector<std::vector<at::Tensor>> received = {};
  };

  at::Tensor packed_rows() const;
  void put_together();
  void hold_memory();
  void drop_memory();
  at::ScalarType reduce_dtype(const Parameter& parameter) const;
  std::vector<std::size_t> trainable() const;
  std::int64_t message_bytes(std::int64_t shard, const std::vector<std::size_t>& which) const;
  void pack_gradients(at::Tensor& bytes, const std::vector<at::Tensor>& gradients) const;
  void add_over_replicas(std::vector<at::Tensor>& sums, std::vector<char>& has_any,
                         const std::string& what) const;
  void add_gradient(Parameter& parameter, const at::Tensor& sum);
  template <class Start>
  WorkPtr start(const char* what, Start start) const;
  void wait(const Exchange& exchange, const std::string& what) const;  // of a row

  const ShardMesh& mesh_;
  std::string name_;
  UnitDtypes dtypes_;
  std::vector<Parameter> parameters_;
  bool is_whole_ = false;
  Exchange gathering_;
  Exchange reducing_;
  std::vector<std::size_t> reduced_;  // parameters under way
};

}  // namespace cairn::dist

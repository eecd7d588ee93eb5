// Sends the gradients of a unit to the ranks that have the rows.
//
//  1. begin() takes the gradients of the wholes, divided by the number of ranks, and sends each
//     rank its rows. This is an all-to-all of bytes. It sends as much as a reduce-scatter, which
//     Gloo lacks, and works for any dtype.
//  2. finish() adds up the received rows in the order of the ranks, then adds these sums over the
//     replicas, and adds the result to the gradients of earlier passes.
//  3. Each part includes whether the rank had a gradient. If no rank had one, the parameter keeps
//     no gradient, as in one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dist/sharding/row_exchange.h"
#include "dist/sharding/shard_mesh.h"
#include "dist/sharding/shard_parameter.h"

namespace cairn::dist {

class UnitGradients {
 public:
  // `unit` is a name for messages.
  UnitGradients(const ShardMesh& mesh, std::string unit) : mesh_(mesh), unit_(std::move(unit)) {}

  // `gradients`: one for each parameter, undefined if this rank has none. Keeps pointers to the
  // parameters until finish().
  void begin(std::vector<ShardParameter*> parameters, const std::vector<at::Tensor>& gradients);
  void finish(const std::string& what);

 private:
  struct Sums {
    std::vector<at::Tensor> values = {};
    std::vector<char> has_any = {};
  };

  std::int64_t message_bytes(std::int64_t shard) const;
  void pack(at::Tensor& bytes, const std::vector<at::Tensor>& gradients) const;
  Sums sums_of(const at::Tensor& bytes) const;
  void add_over_replicas(Sums& sums, const std::string& what) const;

  const ShardMesh& mesh_;
  std::string unit_;
  RowExchange exchange_;
  std::vector<ShardParameter*> parameters_;  // The parameters of the exchange under way.
};

}  // namespace cairn::dist

// Messages between the ranks that share one whole (shard_mesh.h): a collective under way, and the
// parts of a message. The parts lie one after the other, each of any dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dist/sharding/shard_mesh.h"

namespace cairn::dist {

struct RowExchange {
  std::vector<at::Tensor> sent = {};
  std::vector<std::vector<at::Tensor>> received = {};
  WorkPtr work = {};

  bool is_under_way() const { return work != nullptr; }
  // `begin()` returns the work. `what` is for messages. Throws DistError.
  template <class Begin>
  void start(const ShardMesh& mesh, const std::string& what, Begin begin) {
    try {
      work = begin();
    } catch (const std::exception& error) {
      mesh.group().fail(what, error.what());
    }
  }
  void wait(const ShardMesh& mesh, const std::string& what) const;
};

std::int64_t part_bytes(std::int64_t elements, at::ScalarType type);

// The part that begins at the byte `at`. Moves `at` to the end of the part.
at::Tensor next_part(const at::Tensor& bytes, std::int64_t& at, std::int64_t elements,
                     at::ScalarType type);

}  // namespace cairn::dist

// Gives rank 0 whole tensors whose rows are distributed over the ranks.
//
//  1. All ranks add the same tensors in the same order, each with its own rows. The tensors' bytes,
//     one tensor after the other, are one source.
//  2. Rank 0 reads ranges of this source, in any order, and from any thread. Small ranges go in
//     batches, since a round trip costs as much as a MiB. Rank 0 sends the list of ranges to all
//     ranks, and each rank sends its bytes of these ranges in one message. A large range is sent
//     alone, without a copy on either side. The other ranks serve() meanwhile.
//  3. finish() ends serve() on the other ranks. A read after finish() is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

#include "dist/group.h"
#include "io/bytes/device_source.h"

namespace cairn::dist {

// The rows of a tensor in row-major order.
struct GatheredRows {
  SharedBytes own = {};          // Must not change, nor move, until the end of serve() or finish().
  std::uint64_t rank_bytes = 0;  // Each rank's rows; the last ranks may have fewer, or none.
  std::uint64_t all_bytes = 0;
};

class RowGather final : public DeviceSource, public std::enable_shared_from_this<RowGather> {
 public:
  // The first `shards` ranks have the rows.
  RowGather(Group& group, std::int64_t shards) : group_(group), shards_(shards) {}

  // Step 1. On rank 0, returns the whole tensor, which is read on demand.
  std::shared_ptr<const Storage> add(GatheredRows rows);
  std::uint64_t size() const override;
  const std::string& name() const override { return name_; }
  // Step 2. Both throw DistError.
  void read(std::span<const Range> ranges) const override;
  void serve();
  // Step 3. Does nothing the second time.
  void finish();

 private:
  struct Tensor {
    GatheredRows rows;
    std::uint64_t begin = 0;  // In the source.
  };
  struct Wanted {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  std::vector<Wanted> announce(const std::vector<Range>& batch) const;
  void gather(const std::vector<Range>& batch) const;
  template <class Take>
  void for_each_piece(std::int64_t rank, const Wanted& wanted, Take take) const;

  Group& group_;
  const std::int64_t shards_;
  const std::string name_ = "the sharded state of all ranks";
  mutable std::mutex mutex_;
  std::vector<Tensor> tensors_;
  bool is_finished_ = false;
};

}  // namespace cairn::dist

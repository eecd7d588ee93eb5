// Whole tensors for rank 0, of which the ranks have the rows.
//
//  1. All ranks add the same tensors in the same order, each with its own rows. The tensors' bytes,
//     one tensor after the other, are one source.
//  2. Rank 0 reads ranges of it, in any order, and from any thread. Small ones go in batches, since
//     a round trip costs as much as a MiB: rank 0 tells all which ranges, and each rank sends what
//     it has of them in one message. A large range goes alone, from where its pieces lie to where
//     rank 0 wants them. The others serve() meanwhile.
//  3. finish() ends their serve(). A read after it is an error.
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
  SharedBytes own = {};          // must not change, nor move, until the end of serve() or finish()
  std::uint64_t rank_bytes = 0;  // of each rank's rows; the last ranks may have fewer, or none
  std::uint64_t all_bytes = 0;
};

class RowGather final : public DeviceSource, public std::enable_shared_from_this<RowGather> {
 public:
  // The rows are those of the first `shards` ranks.
  RowGather(Group& group, std::int64_t shards) : group_(group), shards_(shards) {}

  // Step 1. On rank 0 the whole, read when it is wanted.
  std::shared_ptr<const Storage> add(GatheredRows rows);
  std::uint64_t size() const override;
  const std::string& name() const override { return name_; }
  // Step 2. DistError, of both.
  void read(std::span<const Range> ranges) const override;
  void serve();
  // Step 3. Does nothing the second time.
  void finish();

 private:
  struct Tensor {
    GatheredRows rows;
    std::uint64_t begin = 0;  // in the source
  };
  struct Wanted {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  std::vector<Wanted> tell(const std::vector<Range>& batch) const;
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

// Whole tensors for rank 0, of which the ranks have the rows, piece by piece and in no memory but
// where rank 0 wants them.
//
//  1. All ranks add the same tensors in the same order, each with its own rows.
//  2. Rank 0 reads ranges of them, in any order, and from any thread: it tells all which range, and
//     each that has some of it sends that from where it lies. The others serve() meanwhile.
//  3. finish() ends their serve(). What is read behind it is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

#include "dist/group.h"

namespace cairn::dist {

// Of a tensor in row-major order.
struct GatheredRows {
  SharedBytes own = {};  // must not change, nor move, until the end of serve() or finish()
  std::int64_t per_rank = 0;
  std::int64_t all = 0;
  std::uint64_t row_bytes = 0;
};

class RowGather : public std::enable_shared_from_this<RowGather> {
 public:
  // The rows are those of the first `shards` ranks.
  RowGather(Group& group, std::int64_t shards) : group_(group), shards_(shards) {}

  // Step 1. On rank 0 the whole, read when it is wanted.
  std::shared_ptr<const Storage> add(GatheredRows rows);
  // Step 2. DistError, of both.
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> into);
  void serve();
  // Step 3. Does nothing the second time.
  void finish();

 private:
  void read_piece(std::size_t tensor, std::uint64_t offset, std::span<std::byte> into);
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  // What of a range a rank has: in the whole.
  Range part_of(const GatheredRows& rows, std::int64_t rank, const Range& wanted) const;
  void send(std::size_t tensor, const Range& wanted);
  at::Tensor tell(std::int64_t tensor, const Range& range);

  Group& group_;
  const std::int64_t shards_;
  std::mutex mutex_;
  std::vector<GatheredRows> tensors_;
  bool is_finished_ = false;
};

}  // namespace cairn::dist

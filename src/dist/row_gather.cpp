#include "dist/row_gather.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cairn/error.h"

namespace cairn::dist {
namespace {

constexpr int kTag = 0;
const std::string kWhat = "gathering the sharded state for rank 0";

// Read over the ranks.
class WholeStorage final : public Storage {
 public:
  WholeStorage(std::shared_ptr<RowGather> gather, std::size_t tensor, std::uint64_t size)
      : Storage(size, "cpu"), gather_(std::move(gather)), tensor_(tensor) {}

 private:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    gather_->read(tensor_, offset, into);
  }

  std::shared_ptr<RowGather> gather_;
  std::size_t tensor_;
};

// libtorch has no type for bytes that are not written.
at::Tensor over(const std::byte* bytes, std::uint64_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  return at::from_blob(const_cast<std::byte*>(bytes), {static_cast<std::int64_t>(size)}, at::kByte);
}

}  // namespace

std::shared_ptr<const Storage> RowGather::add(GatheredRows rows) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t size = static_cast<std::uint64_t>(rows.all) * rows.row_bytes;
  tensors_.push_back(std::move(rows));
  return std::make_shared<WholeStorage>(shared_from_this(), tensors_.size() - 1, size);
}

RowGather::Range RowGather::part_of(const GatheredRows& rows, std::int64_t rank,
                                    const Range& wanted) const {
  const auto at = [&](std::int64_t shard) {
    return static_cast<std::uint64_t>(std::min(shard * rows.per_rank, rows.all)) * rows.row_bytes;
  };
  Range part;
  if (rank >= shards_) return part;
  part.begin = std::max(at(rank), wanted.begin);
  part.end = std::max(part.begin, std::min(at(rank + 1), wanted.end));
  return part;
}

// From rank 0 to all: the range; -1 for the end.
at::Tensor RowGather::tell(std::int64_t tensor, const Range& range) {
  std::vector<at::Tensor> message = {at::tensor(
      {tensor, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end)},
      at::kLong)};
  group_.wait(group_.backend().broadcast(message));
  return message[0];
}

void RowGather::read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> into) {
  const std::scoped_lock lock(mutex_);
  if (is_finished_) {
    throw UsageError("a sharded state was read when the ranks did not give their parts any more");
  }
  // Each piece has the time limit of something that is done together.
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  while (!into.empty()) {
    const std::size_t size = std::min(into.size(), kMostBytes);
    read_piece(tensor, offset, into.first(size));
    offset += size;
    into = into.subspan(size);
  }
}

void RowGather::read_piece(std::size_t tensor, std::uint64_t offset, std::span<std::byte> into) {
  const GatheredRows& rows = tensors_.at(tensor);
  const Range wanted = {offset, offset + into.size()};
  group_.together(kWhat, [&] {
    tell(static_cast<std::int64_t>(tensor), wanted);
    std::vector<WorkPtr> works;
    for (std::int64_t rank = 0; rank < shards_; ++rank) {
      const Range part = part_of(rows, rank, wanted);
      if (part.begin == part.end) continue;
      std::byte* const to = into.data() + (part.begin - offset);
      if (rank == 0) {
        std::memcpy(to, rows.own.view.data() + part.begin, part.end - part.begin);
        continue;
      }
      std::vector<at::Tensor> place = {over(to, part.end - part.begin)};
      works.push_back(group_.backend().recv(place, static_cast<int>(rank), kTag));
    }
    for (const WorkPtr& work : works)
      group_.wait(work);
  });
}

void RowGather::send(std::size_t tensor, const Range& wanted) {
  const GatheredRows& rows = tensors_.at(tensor);
  const std::int64_t rank = group_.launch().rank;
  const Range part = part_of(rows, rank, wanted);
  if (part.begin == part.end) return;
  const std::uint64_t first = static_cast<std::uint64_t>(rank * rows.per_rank) * rows.row_bytes;
  std::vector<at::Tensor> bytes = {
      over(rows.own.view.data() + (part.begin - first), part.end - part.begin)};
  group_.wait(group_.backend().send(bytes, /*dstRank=*/0, kTag));
}

void RowGather::serve() {
  for (bool goes_on = true; goes_on;) {
    group_.together(kWhat, [&] {
      const at::Tensor message = tell(-1, {});
      const auto* const numbers = message.data_ptr<std::int64_t>();
      goes_on = numbers[0] >= 0;
      if (!goes_on) return;
      send(static_cast<std::size_t>(numbers[0]),
           {static_cast<std::uint64_t>(numbers[1]), static_cast<std::uint64_t>(numbers[2])});
    });
  }
}

void RowGather::finish() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(is_finished_, true)) return;
  group_.together(kWhat, [&] { tell(-1, {}); });
  for (GatheredRows& rows : tensors_)
    rows.own = {};
}

}  // namespace cairn::dist

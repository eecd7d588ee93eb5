#include "dist/sharding/row_gather.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "cairn/error.h"

#include "io/bytes/range_batches.h"

namespace cairn::dist {
namespace {

constexpr int kTag = 0;
constexpr BatchSize kMaxBatch = {.ranges = 1 << 15, .bytes = std::uint64_t{32} << 20};
constexpr std::size_t kFirstNumbers = 65;  // In the first message: room for 32 ranges.
constexpr std::size_t kAloneBytes = std::size_t{1} << 20;  // A copy would cost more than a batch.
const std::string kWhat = "gathering the sharded state for rank 0";

// One rank's bytes of a batch: a single piece is sent in place, several are packed together.
struct SentPieces {
  std::vector<std::span<std::byte>> places = {};  // On this side.
  std::vector<at::Tensor> message = {};
  WorkPtr work = {};

  void make_message() {
    std::int64_t size = 0;
    for (const auto place : places)
      size += static_cast<std::int64_t>(place.size());
    message = {places.size() == 1 ? at::from_blob(places[0].data(), {size}, at::kByte)
                                  : at::empty({size}, at::kByte)};
  }
  void pack() const {
    auto* to = static_cast<std::byte*>(message[0].data_ptr());
    for (const auto place : places) {
      if (to != place.data()) std::memcpy(to, place.data(), place.size());
      to += place.size();
    }
  }
  void unpack() const {
    const auto* from = static_cast<const std::byte*>(message[0].data_ptr());
    for (const auto place : places) {
      if (from != place.data()) std::memcpy(place.data(), from, place.size());
      from += place.size();
    }
  }
};

}  // namespace

std::shared_ptr<const Storage> RowGather::add(GatheredRows rows) {
  const std::uint64_t begin = size();
  const std::uint64_t bytes = rows.all_bytes;
  tensors_.push_back({std::move(rows), begin});
  return storage_of(shared_from_this(), begin, bytes);
}

std::uint64_t RowGather::size() const {
  return tensors_.empty() ? 0 : tensors_.back().begin + tensors_.back().rows.all_bytes;
}

// Calls take(rows, begin, at, size) for each piece that the rank has of `wanted`, a range of the
// source. `begin` is where the piece begins in the rank's own rows, and `at` where it begins in the
// range.
template <class Take>
void RowGather::for_each_piece(std::int64_t rank, const Wanted& wanted, Take take) const {
  const auto begin_of = [](const Tensor& tensor, std::int64_t of_rank) {
    const std::uint64_t before = static_cast<std::uint64_t>(of_rank) * tensor.rows.rank_bytes;
    return tensor.begin + std::min(before, tensor.rows.all_bytes);
  };
  const std::uint64_t stop = wanted.offset + wanted.size;
  auto tensor = std::prev(std::ranges::upper_bound(tensors_, wanted.offset, {}, &Tensor::begin));
  for (; tensor != tensors_.end() && tensor->begin < stop; ++tensor) {
    const std::uint64_t first = begin_of(*tensor, rank);
    const std::uint64_t begin = std::max(first, wanted.offset);
    const std::uint64_t end = std::min(begin_of(*tensor, rank + 1), stop);
    if (begin < end) take(tensor->rows, begin - first, begin - wanted.offset, end - begin);
  }
}

// Rank 0 sends the number of ranges to all, then the offset and the size of each. An empty list
// means the end. A large batch takes a second message, since the receivers know only the length of
// the first message.
std::vector<RowGather::Wanted> RowGather::announce(const std::vector<Range>& batch) const {
  std::vector<std::int64_t> numbers = {static_cast<std::int64_t>(batch.size())};
  for (const Range& range : batch) {
    numbers.push_back(static_cast<std::int64_t>(range.offset));
    numbers.push_back(static_cast<std::int64_t>(range.into.size()));
  }
  const auto broadcast = [&](std::size_t begin, std::size_t end) {
    numbers.resize(std::max(numbers.size(), end));
    std::vector<at::Tensor> message = {
        at::from_blob(numbers.data() + begin, {static_cast<std::int64_t>(end - begin)}, at::kLong)};
    group_.wait(group_.backend().broadcast(message));
  };
  broadcast(0, kFirstNumbers);
  std::vector<Wanted> announced(static_cast<std::size_t>(numbers[0]));
  if (1 + 2 * announced.size() > kFirstNumbers) broadcast(kFirstNumbers, 1 + 2 * announced.size());
  for (std::size_t i = 0; i < announced.size(); ++i) {
    announced[i] = {static_cast<std::uint64_t>(numbers[1 + 2 * i]),
                    static_cast<std::uint64_t>(numbers[2 + 2 * i])};
  }
  return announced;
}

void RowGather::read(std::span<const Range> ranges) const {
  const std::scoped_lock lock(mutex_);
  if (is_finished_) {
    throw UsageError("a sharded state was read after the ranks had stopped sending their parts");
  }
  for (const Range& range : ranges)
    check_range(range.offset, range.into.size());
  const auto is_large = [](const Range& range) { return range.into.size() >= kAloneBytes; };
  while (!ranges.empty()) {
    const auto small = std::ranges::find_if(ranges, is_large) - ranges.begin();
    const auto next = ranges.first(std::max<std::size_t>(1, static_cast<std::size_t>(small)));
    for_each_batch(next, kMaxBatch, [this](const std::vector<Range>& batch) { gather(batch); });
    ranges = ranges.subspan(next.size());
  }
}

void RowGather::gather(const std::vector<Range>& batch) const {
  std::vector<SentPieces> from(static_cast<std::size_t>(shards_));
  group_.run_collective(kWhat, [&] {
    const std::vector<Wanted> announced = announce(batch);
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      SentPieces& pieces = from[rank];
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto take = [&](const GatheredRows& rows, std::uint64_t begin, std::uint64_t at,
                              std::uint64_t size) {
          const std::span<std::byte> place = batch[i].into.subspan(at, size);
          if (rank > 0) return pieces.places.push_back(place);
          std::memcpy(place.data(), rows.own.view.data() + begin, size);
        };
        for_each_piece(static_cast<std::int64_t>(rank), announced[i], take);
      }
      if (pieces.places.empty()) continue;
      pieces.make_message();
      pieces.work = group_.backend().recv(pieces.message, static_cast<int>(rank), kTag);
    }
    for (const SentPieces& pieces : from) {
      if (pieces.places.empty()) continue;
      group_.wait(pieces.work);
      pieces.unpack();
    }
  });
}

void RowGather::serve() {
  const std::int64_t rank = group_.launch().rank;
  for (bool goes_on = true; goes_on;) {
    group_.run_collective(kWhat, [&] {
      const std::vector<Wanted> announced = announce({});
      goes_on = !announced.empty();
      SentPieces pieces;
      const auto take = [&](const GatheredRows& rows, std::uint64_t begin, std::uint64_t,
                            std::uint64_t size) {
        // libtorch has no type for bytes that are not written.
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
        pieces.places.emplace_back(const_cast<std::byte*>(rows.own.view.data()) + begin, size);
      };
      for (const Wanted& wanted : announced)
        if (rank < shards_) for_each_piece(rank, wanted, take);
      if (pieces.places.empty()) return;
      pieces.make_message();
      pieces.pack();
      group_.wait(group_.backend().send(pieces.message, /*dstRank=*/0, kTag));
    });
  }
}

void RowGather::finish() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(is_finished_, true)) return;
  group_.run_collective(kWhat, [&] { announce({}); });
  for (Tensor& tensor : tensors_)
    tensor.rows.own = {};
}

}  // namespace cairn::dist

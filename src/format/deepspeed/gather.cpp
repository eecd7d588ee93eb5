#include "format/deepspeed/gather.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "cairn/error.h"

#include "core/checked.h"
#include "io/bytes/pieces.h"
#include "io/memory/spill.h"
#include "value/tensor/assembled_storage.h"

namespace cairn::deepspeed {
namespace {

constexpr std::size_t kGatherPieceBytes = std::size_t{4} << 20;

std::uint64_t bytes_of(const Run& run) { return run.count * item_size(run.flat.dtype); }

// Returns the run's offset in its storage, in bytes.
std::uint64_t begin_of(const Run& run) {
  return (static_cast<std::uint64_t>(run.flat.storage_offset) + run.begin) *
         item_size(run.flat.dtype);
}

std::uint64_t bytes_of(const std::vector<Run>& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Run& run) { return sum + bytes_of(run); });
}

// Runs, one after another.
class RunsStorage final : public AssembledStorage {
 public:
  RunsStorage(std::vector<Run> runs, std::string scratch_folder)
      : AssembledStorage(bytes_of(runs), "cpu"),
        runs_(std::move(runs)),
        scratch_folder_(std::move(scratch_folder)) {}

  bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const override {
    const bool is_made = std::any_of(runs_.begin(), runs_.end(), [](const Run& run) {
      return run.flat.storage->source() == nullptr;
    });
    for (const Run& run : runs_) {
      if (is_made) break;
      const Storage& storage = *run.flat.storage;
      ranges.push_back(
          {storage.source(), {storage.source_offset() + begin_of(run), into.first(bytes_of(run))}});
      into = into.subspan(bytes_of(run));
    }
    return !is_made;
  }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    std::uint64_t begin = 0;  // of the current run
    for (const Run& run : runs_) {
      const std::uint64_t size = bytes_of(run);
      if (offset < begin + size && !into.empty()) {
        const std::uint64_t skip = offset - begin;
        const auto part = into.first(std::min<std::uint64_t>(size - skip, into.size()));
        run.flat.storage->read_into(begin_of(run) + skip, part);
        into = into.subspan(part.size());
        offset += part.size();
      }
      begin += size;
    }
  }
  SharedBytes load() const override {
    if (size() <= kMaxBytesInMemory) return Storage::load();
    return spill(size(), scratch_folder_, [&](ByteSink& sink) {
      for (const Run& run : runs_) {
        write(run, sink);
      }
    });
  }

 private:
  static void write(const Run& run, ByteSink& sink) {
    const auto to_sink = [&](ByteView piece) { sink.write(piece); };
    const Storage& storage = *run.flat.storage;
    if (const ByteSource* source = storage.source()) {
      for_each_piece(*source, storage.source_offset() + begin_of(run), bytes_of(run), to_sink);
    } else {
      for_each_piece(storage.bytes().part(begin_of(run), bytes_of(run)), kGatherPieceBytes,
                     to_sink);
    }
  }

  std::vector<Run> runs_;
  std::string scratch_folder_;
};

}  // namespace

std::uint64_t checked_numel(const Dims& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) throw CorruptError("a shape has a negative size");
    numel = checked_multiply(numel, size);
  }
  if (numel > std::numeric_limits<std::int64_t>::max() / 16) {
    throw CorruptError("a shape has " + std::to_string(numel) + " elements, which is too many");
  }
  return static_cast<std::uint64_t>(numel);
}

void check_flat(const TensorView& tensor) {
  check_bounds(tensor);
  if (tensor.shape.size() != 1 || !tensor.is_contiguous()) {
    throw CorruptError("a partition is not a flat, contiguous tensor");
  }
}

TensorView gather(std::vector<Run> runs, Dims shape, const std::string& scratch_folder) {
  std::erase_if(runs, [](const Run& run) { return run.count == 0; });
  const DType dtype = runs.empty() ? DType::kFloat32 : runs.front().flat.dtype;
  if (runs.empty()) return make_tensor(dtype, std::move(shape), {});
  TensorView tensor{.dtype = dtype, .shape = std::move(shape)};
  tensor.strides = contiguous_strides(tensor.shape);
  if (runs.size() == 1) {
    tensor.storage = runs.front().flat.storage;
    tensor.storage_offset =
        runs.front().flat.storage_offset + static_cast<std::int64_t>(runs.front().begin);
    return tensor;
  }
  tensor.storage = std::make_shared<const RunsStorage>(std::move(runs), scratch_folder);
  return tensor;
}

}  // namespace cairn::deepspeed

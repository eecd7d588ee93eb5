#include "format/deepspeed/gather.h"

#include <limits>

#include "cairn/error.h"

#include "core/checked.h"
#include "io/pieces.h"
#include "io/scratch_file.h"

namespace cairn::deepspeed {
namespace {

constexpr std::uint64_t kSmallBytes = std::uint64_t{32} << 20;
constexpr std::size_t kGatherPieceBytes = std::size_t{4} << 20;

class BufferSink final : public ByteSink {
 public:
  explicit BufferSink(std::uint64_t bytes) { buffer_->reserve(bytes); }
  void write(ByteView bytes) override {
    buffer_->insert(buffer_->end(), bytes.begin(), bytes.end());
  }
  SharedBytes take() { return {ByteView(*buffer_), buffer_}; }

 private:
  std::shared_ptr<std::vector<std::byte>> buffer_ = std::make_shared<std::vector<std::byte>>();
};

void write_runs(const std::vector<Run>& runs, ByteSink& sink) {
  for (const Run& run : runs) {
    if (run.count == 0) continue;
    const std::size_t item = item_size(run.flat.dtype);
    const Storage& storage = *run.flat.storage;
    if (const ByteSource* source = storage.source()) {
      const std::uint64_t first = static_cast<std::uint64_t>(run.flat.storage_offset) + run.begin;
      for_each_piece(*source, storage.source_offset() + first * item, run.count * item,
                     [&](ByteView piece) { sink.write(piece); });
      continue;
    }
    const SharedBytes bytes = run.flat.contiguous_bytes();
    for_each_piece(bytes.part(run.begin * item, run.count * item), kGatherPieceBytes,
                   [&](ByteView piece) { sink.write(piece); });
  }
}

}  // namespace

std::uint64_t checked_numel(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) throw CorruptError("a shape with a negative size");
    numel = checked_multiply(numel, size);
  }
  if (numel > std::numeric_limits<std::int64_t>::max() / 16) {
    throw CorruptError("a shape of " + std::to_string(numel) + " elements");
  }
  return static_cast<std::uint64_t>(numel);
}

void check_flat(const TensorView& tensor) {
  check_bounds(tensor);
  if (tensor.shape.size() != 1 || !tensor.is_contiguous()) {
    throw CorruptError("a partition that is no flat tensor");
  }
}

TensorView gather(std::vector<Run> runs, std::vector<std::int64_t> shape,
                  const std::string& scratch_folder) {
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
  const std::uint64_t bytes = checked_numel(tensor.shape) * item_size(dtype);
  tensor.storage = std::make_shared<const Storage>(
      bytes, [runs = std::move(runs), scratch_folder, bytes]() -> SharedBytes {
        if (bytes <= kSmallBytes) {
          BufferSink sink(bytes);
          write_runs(runs, sink);
          return sink.take();
        }
        ScratchFile scratch(scratch_folder);
        write_runs(runs, scratch);
        return scratch.map();
      });
  return tensor;
}

}  // namespace cairn::deepspeed

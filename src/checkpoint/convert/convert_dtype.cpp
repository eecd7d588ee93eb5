#include "checkpoint/convert/convert_dtype.h"

#include "checkpoint/convert/map_tensors.h"
#include "io/pieces.h"
#include "io/scratch_file.h"
#include "value/float_convert.h"

namespace cairn {
namespace {

constexpr std::size_t kMostInMemory = std::size_t{32} << 20;
constexpr std::size_t kDTypePieceBytes = std::size_t{1} << 20;  // whole elements

void convert(const TypedStorage& from, DType to, ByteSink& sink) {
  const SharedBytes bytes = from.storage->bytes();
  const std::size_t whole = bytes.view.size() / item_size(from.dtype) * item_size(from.dtype);
  std::vector<std::byte> converted;
  for_each_piece(bytes.part(0, whole), kDTypePieceBytes, [&](ByteView piece) {
    convert_floats(from.dtype, to, piece, converted);
    sink.write(converted);
  });
}

class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(std::size_t size) { bytes_->reserve(size); }
  void write(ByteView bytes) override { bytes_->insert(bytes_->end(), bytes.begin(), bytes.end()); }
  SharedBytes take() { return {ByteView(*bytes_), bytes_}; }

 private:
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
};

}  // namespace

Value convert_dtype(const Value& root, DType dtype, const std::string& scratch_folder) {
  return map_storages(root, [&](const TypedStorage& from) {
    if (from.dtype == dtype || !is_convertible_float(from.dtype)) return from;
    const std::uint64_t size = from.storage->size() / item_size(from.dtype) * item_size(dtype);
    auto load = [from, dtype, size, scratch_folder]() -> SharedBytes {
      if (size <= kMostInMemory) {
        MemorySink sink(size);
        convert(from, dtype, sink);
        return sink.take();
      }
      ScratchFile file(scratch_folder);
      convert(from, dtype, file);
      return file.map();
    };
    return TypedStorage{
        dtype, std::make_shared<const Storage>(size, std::move(load), from.storage->location())};
  });
}

}  // namespace cairn

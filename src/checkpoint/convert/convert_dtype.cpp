#include "checkpoint/convert/convert_dtype.h"

#include "checkpoint/convert/map_tensors.h"
#include "io/pieces.h"
#include "io/spill.h"
#include "value/float_convert.h"

namespace cairn {
namespace {

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

}  // namespace

Value convert_dtype(const Value& root, DType dtype, const std::string& scratch_folder) {
  return map_storages(root, [&](const TypedStorage& from) {
    if (from.dtype == dtype || !is_convertible_float(from.dtype)) return from;
    const std::uint64_t size = from.storage->size() / item_size(from.dtype) * item_size(dtype);
    auto load = [from, dtype, size, scratch_folder]() -> SharedBytes {
      return spill(size, scratch_folder, [&](ByteSink& sink) { convert(from, dtype, sink); });
    };
    return TypedStorage{
        dtype, std::make_shared<const Storage>(size, std::move(load), from.storage->location())};
  });
}

}  // namespace cairn

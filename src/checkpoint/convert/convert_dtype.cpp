#include "checkpoint/convert/convert_dtype.h"

#include <algorithm>

#include "checkpoint/convert/map_tensors.h"
#include "io/bytes/pieces.h"
#include "io/memory/spill.h"
#include "value/tensor/float_convert.h"
#include "value/tensor/strided.h"

namespace cairn {
namespace {

constexpr std::size_t kDTypePieceBytes = std::size_t{1} << 20;  // a multiple of each element size

// The elements of a storage, converted to another dtype.
class ConvertedStorage final : public Storage {
 public:
  ConvertedStorage(TypedStorage from, DType to, std::string scratch_folder)
      : Storage(elements_of(from) * item_size(to), from.storage->location()),
        from_(std::move(from)),
        to_(to),
        scratch_folder_(std::move(scratch_folder)) {}

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    fill_from_elements(item_size(to_), offset, into,
                       [&](std::uint64_t first, std::span<std::byte> out) { fill(first, out); });
  }

  SharedBytes load() const override {
    return spill(size(), scratch_folder_, [&](ByteSink& sink) {
      const SharedBytes bytes = from_.storage->bytes();
      std::vector<std::byte> converted;
      const std::uint64_t whole = elements_of(from_) * item_size(from_.dtype);
      for_each_piece(bytes.part(0, whole), kDTypePieceBytes, [&](ByteView piece) {
        convert_floats(from_.dtype, to_, piece, converted);
        sink.write(converted);
      });
    });
  }

 private:
  static std::uint64_t elements_of(const TypedStorage& from) {
    return from.storage->size() / item_size(from.dtype);
  }

  void fill(std::uint64_t first, std::span<std::byte> out) const {
    const std::size_t item = item_size(from_.dtype);
    std::vector<std::byte> piece(std::min(kDTypePieceBytes, out.size() / item_size(to_) * item));
    std::vector<std::byte> converted;
    while (!out.empty()) {
      const auto elements =
          std::span(piece).first(std::min(piece.size(), out.size() / item_size(to_) * item));
      from_.storage->read_into(first * item, elements);
      convert_floats(from_.dtype, to_, elements, converted);
      std::copy(converted.begin(), converted.end(), out.begin());
      out = out.subspan(converted.size());
      first += elements.size() / item;
    }
  }

  TypedStorage from_;
  DType to_;
  std::string scratch_folder_;
};

}  // namespace

Value convert_dtype(const Value& root, DType dtype, const std::string& scratch_folder) {
  return map_storages(root, [&](const TypedStorage& from) {
    if (from.dtype == dtype || !is_convertible_float(from.dtype)) return from;
    return TypedStorage{dtype,
                        std::make_shared<const ConvertedStorage>(from, dtype, scratch_folder)};
  });
}

}  // namespace cairn

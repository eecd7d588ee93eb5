#include "value/tensor/element_reader.h"

#include <cstring>

#include "value/tensor/strided.h"

namespace cairn {

ElementReader::ElementReader(const TensorView& tensor)
    : shape_(tensor.shape), strides_(tensor.strides), item_size_(cairn::item_size(tensor.dtype)) {
  const Reach reach = reach_of(tensor);
  is_contiguous_ = tensor.is_contiguous();
  numel_ = static_cast<std::uint64_t>(tensor.numel());
  if (elements_per_byte(tensor.dtype) > 1) {  // elements are counted in bytes
    numel_ = byte_size(tensor);
    is_contiguous_ = true;
  }
  if (reach.size > 0) bytes_ = tensor.storage->bytes(reach.offset, reach.size);
}

ByteView ElementReader::view(std::uint64_t first, std::uint64_t count) const {
  return bytes_.view.subspan(place_of(first), count * item_size_);
}

void ElementReader::read(std::uint64_t first, std::span<std::byte> out) const {
  if (out.empty()) return;
  if (is_contiguous_ || out.size() == item_size_) {
    std::memcpy(out.data(), bytes_.view.data() + place_of(first), out.size());
  } else {
    read_strided(first, out);
  }
}

// Returns the element's place, in bytes.
std::uint64_t ElementReader::place_of(std::uint64_t element) const {
  if (is_contiguous_) return element * item_size_;
  std::uint64_t at = 0;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(shape_[d]);
    at += element % size * static_cast<std::uint64_t>(strides_[d]);
    element /= size;
  }
  return at * item_size_;
}

void ElementReader::read_strided(std::uint64_t first, std::span<std::byte> out) const {
  std::byte* to = out.data();
  for_each_box(
      shape_, first, out.size() / item_size_, [&](const auto& /*offsets*/, const Dims& sizes) {
        const Dims strides = contiguous_strides(sizes);
        copy_strided(sizes, item_size_, {to, strides},
                     {bytes_.view.data() + place_of(first), strides_});
        const auto count =
            static_cast<std::uint64_t>(sizes.empty() ? 1 : sizes.front() * strides.front());
        to += count * item_size_;
        first += count;
      });
}

std::int64_t ElementReader::integer(std::uint64_t at) const {
  if (item_size_ == sizeof(std::int32_t)) {
    std::int32_t value = 0;
    read(at, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::int64_t value = 0;
  read(at, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace cairn

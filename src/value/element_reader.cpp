#include "value/element_reader.h"

#include <cstring>

namespace cairn {

ElementReader::ElementReader(const TensorView& tensor)
    : shape_(tensor.shape),
      strides_(tensor.strides),
      offset_(static_cast<std::uint64_t>(tensor.storage_offset)),
      item_size_(cairn::item_size(tensor.dtype)) {
  check_bounds(tensor);
  is_contiguous_ = tensor.is_contiguous();
  numel_ = static_cast<std::uint64_t>(tensor.numel());
  if (elements_per_byte(tensor.dtype) > 1) {  // read by the byte
    numel_ = byte_size(tensor);
    is_contiguous_ = true;
  }
  if (numel_ > 0) storage_ = tensor.storage->bytes();
}

void ElementReader::read(std::uint64_t first, std::span<std::byte> out) const {
  if (out.empty()) return;
  if (is_contiguous_) {
    std::memcpy(out.data(), storage_.view.data() + (offset_ + first) * item_size_, out.size());
  } else {
    read_strided(first, out);
  }
}

void ElementReader::read_strided(std::uint64_t first, std::span<std::byte> out) const {
  const std::size_t rank = shape_.size();
  std::vector<std::int64_t> index(rank);
  auto offset = static_cast<std::int64_t>(offset_);
  for (std::size_t d = rank; d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(shape_[d]);
    index[d] = static_cast<std::int64_t>(first % size);
    offset += index[d] * strides_[d];
    first /= size;
  }
  for (std::byte* to = out.data(); to != out.data() + out.size(); to += item_size_) {
    std::memcpy(to, storage_.view.data() + static_cast<std::size_t>(offset) * item_size_,
                item_size_);
    for (std::size_t d = rank; d-- > 0;) {
      offset += strides_[d];
      if (++index[d] < shape_[d]) break;
      offset -= strides_[d] * shape_[d];
      index[d] = 0;
    }
  }
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

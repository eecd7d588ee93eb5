#include "value/tensor/strided.h"

namespace cairn {
namespace {

template <std::size_t kItem>
void copy_items_of(ItemsTo to, ItemsFrom from, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to.first, from.first, kItem);
    to.first += to.step;
    from.first += from.step;
  }
}

// A box without its last dimensions that are contiguous together on both sides. Those last
// dimensions are `run` bytes for each position of the other dimensions.
struct StridedBox {
  std::span<const std::int64_t> shape;
  const std::int64_t* to_strides;
  const std::int64_t* from_strides;
  std::size_t item;  // the bytes that strides count in
  std::size_t run;
};

// Copies from dimension `d` on.
void copy_box(const StridedBox& box, std::size_t d, std::byte* to, const std::byte* from) noexcept {
  if (box.shape.empty()) {
    std::memcpy(to, from, box.run);
    return;
  }
  const auto count = static_cast<std::size_t>(box.shape[d]);
  const std::size_t to_step = static_cast<std::size_t>(box.to_strides[d]) * box.item;
  const std::size_t from_step = static_cast<std::size_t>(box.from_strides[d]) * box.item;
  if (d + 1 == box.shape.size()) {
    copy_items({to, to_step}, {from, from_step}, count, box.run);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    copy_box(box, d + 1, to + i * to_step, from + i * from_step);
  }
}

}  // namespace

void copy_items(ItemsTo to, ItemsFrom from, std::size_t count, std::size_t item) noexcept {
  if (to.step == item && from.step == item) {
    std::memcpy(to.first, from.first, count * item);
    return;
  }
  switch (item) {
    case 1:
      return copy_items_of<1>(to, from, count);
    case 2:
      return copy_items_of<2>(to, from, count);
    case 4:
      return copy_items_of<4>(to, from, count);
    case 8:
      return copy_items_of<8>(to, from, count);
    case 16:
      return copy_items_of<16>(to, from, count);
    default:
      break;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to.first + i * to.step, from.first + i * from.step, item);
  }
}

DenseTail dense_tail(std::span<const std::int64_t> shape, std::span<const std::int64_t> to_strides,
                     std::span<const std::int64_t> from_strides) noexcept {
  DenseTail tail{shape.size(), 1};
  auto& [outer, run] = tail;
  while (outer > 0 && (shape[outer - 1] == 1 ||
                       (to_strides[outer - 1] == run && from_strides[outer - 1] == run))) {
    run *= shape[--outer];
  }
  return tail;
}

void copy_strided(std::span<const std::int64_t> shape, std::size_t item, const StridedTo& to,
                  const StridedFrom& from) noexcept {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const auto [outer, run] = dense_tail(shape, to.strides, from.strides);
  const StridedBox box{.shape = shape.first(outer),
                       .to_strides = to.strides.data(),
                       .from_strides = from.strides.data(),
                       .item = item,
                       .run = static_cast<std::size_t>(run) * item};
  copy_box(box, 0, to.first, from.first);
}

}  // namespace cairn

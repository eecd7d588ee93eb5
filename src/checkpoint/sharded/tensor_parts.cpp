#include "checkpoint/sharded/tensor_parts.h"

#include <algorithm>
#include <numeric>

#include "cairn/error.h"

#include "core/hash/xxh3.h"

namespace cairn::sharded {
namespace {

// Adds what `other` does not cover of `box` to `rest`: at most two boxes for each dimension.
void cut_out(const dcp::Box& box, const dcp::Box& other, std::vector<dcp::Box>& rest) {
  const auto both = dcp::intersect(box, other);
  if (!both) return rest.push_back(box);
  dcp::Box inner = box;
  for (std::size_t d = 0; d < box.sizes.size(); ++d) {
    const std::int64_t end = inner.offsets[d] + inner.sizes[d];
    const std::int64_t both_end = both->offsets[d] + both->sizes[d];
    const auto add = [&](std::int64_t from, std::int64_t to) {
      if (from >= to) return;
      dcp::Box piece = inner;
      piece.offsets[d] = from;
      piece.sizes[d] = to - from;
      rest.push_back(std::move(piece));
    };
    add(inner.offsets[d], both->offsets[d]);
    add(both_end, end);
    inner.offsets[d] = both->offsets[d];
    inner.sizes[d] = both->sizes[d];
  }
}

}  // namespace

void TensorParts::begin(const ItemHeader& item) {
  item_ = &item;
  whole_.assign(item.size.size(), 0);
  whole_.insert(whole_.end(), item.size.begin(), item.size.end());
  holdings_.clear();
  boxes_.clear();
  order_.clear();
}

dcp::Box TensorParts::box_of(std::size_t index) const {
  const auto offsets = offsets_of(index);
  const auto sizes = sizes_of(index);
  return {.offsets = {offsets.begin(), offsets.end()}, .sizes = {sizes.begin(), sizes.end()}};
}

std::uint64_t TensorParts::bytes_of(std::size_t index) const {
  std::uint64_t bytes = item_size(*item_->dtype);
  for (const std::int64_t size : sizes_of(index)) {
    // cannot overflow, since the size of the whole tensor does not
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

bool TensorParts::is_whole(std::size_t index) const {
  return std::ranges::equal(item_->size, sizes_of(index));
}

bool TensorParts::is_empty(std::size_t index) const {
  const auto sizes = sizes_of(index);
  return std::ranges::find(sizes, 0) != sizes.end();
}

bool TensorParts::is_same(std::size_t a, std::size_t b) const {
  const std::size_t numbers = 2 * item_->size.size();
  const std::int64_t* const first = boxes_.data() + numbers * a;
  return std::equal(first, first + numbers, boxes_.data() + numbers * b);
}

bool TensorParts::is_before(std::size_t a, std::size_t b) const {
  const std::size_t numbers = 2 * item_->size.size();
  const std::int64_t* const first = boxes_.data() + numbers * a;
  const std::int64_t* const second = boxes_.data() + numbers * b;
  return std::lexicographical_compare(first, first + numbers, second, second + numbers);
}

void TensorParts::group(KnownLayouts& known) {
  order_.clear();
  const bool is_nothing = std::find(item_->size.begin(), item_->size.end(), 0) != item_->size.end();
  if (is_nothing) {
    if (!holdings_.empty()) order_.push_back(0);
    return;
  }
  for (std::uint32_t i = 0; i < holdings_.size(); ++i) {
    if (!is_empty(i)) order_.push_back(i);
  }
  const auto before = [this](std::uint32_t a, std::uint32_t b) { return is_before(a, b); };
  // In most jobs the ranks have the parts in their order already.
  if (!std::is_sorted(order_.begin(), order_.end(), before)) {
    std::stable_sort(order_.begin(), order_.end(), before);
  }
  if (fills_in_slabs(order_, 0)) return;
  check_boxes(known);
}

// Whether the boxes of `indices`, which are equal in the dimensions before `d`, fill all other
// dimensions. The boxes must be cut in slabs across `d`, and each slab must be filled in turn.
// Slices and meshes of ranks are such boxes.
bool TensorParts::fills_in_slabs(std::span<const std::uint32_t> indices, std::size_t d) const {
  const std::size_t dims = item_->size.size();
  if (d == dims) return !indices.empty();
  std::int64_t end = 0;
  for (std::size_t i = 0; i < indices.size();) {
    const std::int64_t* const first = boxes_.data() + 2 * dims * indices[i];
    if (first[d] != end) return false;
    std::size_t k = i + 1;
    for (; k < indices.size(); ++k) {
      const std::int64_t* const box = boxes_.data() + 2 * dims * indices[k];
      if (box[d] != first[d]) break;
      if (box[dims + d] != first[dims + d]) return false;
    }
    if (!fills_in_slabs(indices.subspan(i, k - i), d + 1)) return false;
    end += first[dims + d];
    i = k;
  }
  return end == item_->size[d];
}

std::string TensorParts::layout_digest() const {
  Xxh3 hash;
  const auto add = [&](std::span<const std::int64_t> numbers) {
    hash.write(std::as_bytes(numbers));
  };
  add(item_->size);
  const std::size_t numbers = 2 * item_->size.size();
  for (const std::uint32_t index : order_) {
    add(std::span(boxes_).subspan(numbers * index, numbers));
  }
  return hash.digest128();
}

void TensorParts::check_boxes(KnownLayouts& known) const {
  std::string digest = layout_digest();
  if (known.contains(digest)) return;
  dcp::Item item{.fqn = item_->fqn, .dtype = item_->dtype, .size = item_->size};
  for_each_group([&](std::span<const std::uint32_t> group) {
    item.chunks.push_back({.box = box_of(group.front()), .location = {}});
  });
  try {
    dcp::check_layout(item);
  } catch (const CorruptError&) {
    explain();
  } catch (Error& e) {
    e.add_context(dcp::in_quotes(item_->fqn));
    throw;
  }
  known.insert(std::move(digest));
}

// "rank 3 has (2, 3) at (0, 0)"
std::string TensorParts::text_of(std::size_t index) const {
  const dcp::Box box = box_of(index);
  return "rank " + std::to_string(holdings_[index].rank) + " has " + dcp::describe(box.sizes) +
         " at " + dcp::describe(box.offsets);
}

// Throws the UsageError that says why the parts do not fill the tensor.
void TensorParts::explain() const {
  const std::string tensor =
      "tensor " + dcp::in_quotes(item_->fqn) + " of size " + dcp::describe(item_->size) + ": ";
  constexpr std::size_t kMaxBoxes = 4096;  // the cost of the search grows with the square
  std::vector<std::size_t> distinct;
  for_each_group([&](std::span<const std::uint32_t> group) { distinct.push_back(group.front()); });
  if (distinct.size() > kMaxBoxes) {
    throw UsageError(tensor + std::to_string(distinct.size()) +
                     " different parts on the ranks do not make it up");
  }
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    for (std::size_t k = i + 1; k < distinct.size(); ++k) {
      if (!dcp::intersect(box_of(distinct[i]), box_of(distinct[k]))) continue;
      throw UsageError(tensor + text_of(distinct[i]) + " and " + text_of(distinct[k]) +
                       ", which overlap; parts of a tensor must be equal, or apart");
    }
  }
  std::vector<dcp::Box> missing = {{Dims(item_->size.size(), 0), item_->size}};
  for (std::size_t i = 0; i < distinct.size() && missing.size() <= kMaxBoxes; ++i) {
    std::vector<dcp::Box> rest;
    for (const dcp::Box& box : missing) {
      cut_out(box, box_of(distinct[i]), rest);
    }
    missing = std::move(rest);
  }
  std::string text = tensor + "no rank has ";
  text += missing.empty() ? "all of it"
                          : dcp::describe(missing.front().sizes) + " at " +
                                dcp::describe(missing.front().offsets);
  text += distinct.empty() ? "" : "; " + text_of(distinct.front());
  if (distinct.size() > 1) text += ", " + text_of(distinct.back());
  if (distinct.size() > 2) text += ", and others the rest";
  throw UsageError(text + "; every element must be on some rank");
}

}  // namespace cairn::sharded

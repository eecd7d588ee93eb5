// A contiguous tensor is one range of bytes. The elements of any other tensor are gathered:
//
//  1. Dimensions of size 1 are dropped. Adjacent dimensions that are contiguous together are
//     merged.
//  2. The "near" dimension is the one whose neighbours are closest in memory. If it is the last
//     dimension, the elements are copied in their order.
//  3. Otherwise (a transposed matrix) copying in the order of the elements would touch another page
//     of memory for nearly every element. Then a tile is gathered: as many steps of the near
//     dimension as fit into a buffer, for all positions of the later dimensions. The near dimension
//     is the innermost loop.
//  4. The touched bytes of a mapped file are counted, and their memory is given back when they
//     become many.
#include "value/tensor/tensor_stream.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/checked.h"
#include "io/bytes/pieces.h"
#include "value/tensor/strided.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn {
namespace {

constexpr std::size_t kStreamPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxTouchedBytes = std::size_t{32} << 20;
// The most that Linux maps around a page fault: since 6.18, whole large folios.
constexpr std::size_t kFaultBytes = std::size_t{2} << 20;

struct Dimension {
  std::size_t size;
  std::size_t stride;  // in bytes, like all distances here
};

std::vector<Dimension> merged_dimensions(const TensorView& tensor) {
  const std::size_t item = item_size(tensor.dtype);
  std::vector<Dimension> dimensions;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const Dimension next{static_cast<std::size_t>(tensor.shape[d]),
                         static_cast<std::size_t>(tensor.strides[d]) * item};
    if (next.size == 1) continue;
    if (!dimensions.empty() && dimensions.back().stride == next.size * next.stride) {
      dimensions.back() = {dimensions.back().size * next.size, next.stride};
    } else {
      dimensions.push_back(next);
    }
  }
  if (dimensions.empty()) dimensions.push_back({1, item});
  return dimensions;
}

// Calls visit(distance) for every position of some dimensions, in row-major order.
template <class Visit>
void for_each_position(std::span<const Dimension> dimensions, Visit visit) {
  std::vector<std::size_t> index(dimensions.size(), 0);
  std::size_t distance = 0;
  for (;;) {
    visit(distance);
    std::size_t d = dimensions.size();
    for (; d-- > 0;) {
      distance += dimensions[d].stride;
      if (++index[d] < dimensions[d].size) break;
      distance -= dimensions[d].stride * dimensions[d].size;
      index[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

class Gatherer {
 public:
  Gatherer(const TensorView& tensor, const SharedBytes& storage, ByteSink& sink,
           std::size_t tile_bytes)
      : storage_(storage),
        sink_(sink),
        item_(item_size(tensor.dtype)),
        dimensions_(merged_dimensions(tensor)),
        start_(storage.view.data() + static_cast<std::size_t>(tensor.storage_offset) * item_),
        buffer_(std::clamp(tile_bytes / item_, std::size_t{1},
                           static_cast<std::size_t>(tensor.numel())) *
                item_) {}

  void run() {
    const auto near =
        static_cast<std::size_t>(std::min_element(dimensions_.begin(), dimensions_.end(),
                                                  [](const Dimension& a, const Dimension& b) {
                                                    return a.stride < b.stride;
                                                  }) -
                                 dimensions_.begin());
    std::size_t behind = item_;  // bytes of all elements at one position of the near dimension
    for (std::size_t d = near + 1; d < dimensions_.size(); ++d) {
      behind *= dimensions_[d].size;
    }
    if (behind == item_ || 2 * behind > buffer_.size()) {
      gather_in_order();
    } else {
      gather_tiles(near, behind);
    }
    flush();
    storage_.release(storage_.view);
  }

 private:
  void gather_in_order() {
    const std::span<const Dimension> outer(dimensions_.data(), dimensions_.size() - 1);
    const Dimension inner = dimensions_.back();
    for_each_position(outer, [&](std::size_t distance) {
      for (std::size_t done = 0; done < inner.size;) {
        if (used_ == buffer_.size()) flush();
        const std::size_t count =
            std::min({inner.size - done, (buffer_.size() - used_) / item_, most_steps(inner)});
        const std::byte* from = start_ + distance + done * inner.stride;
        copy(buffer_.data() + used_, item_, from, {count, inner.stride});
        used_ += count * item_;
        done += count;
      }
    });
  }

  void gather_tiles(std::size_t near, std::size_t behind) {
    const std::span<const Dimension> all(dimensions_);
    const Dimension step = all[near];
    const std::size_t most = std::min(buffer_.size() / behind, most_steps(step));
    for_each_position(all.first(near), [&](std::size_t outer) {
      for (std::size_t done = 0; done < step.size;) {
        const std::size_t count = std::min(most, step.size - done);
        const std::byte* from = start_ + outer + done * step.stride;
        std::byte* to = buffer_.data();
        for_each_position(all.subspan(near + 1), [&](std::size_t inner) {
          copy(to, behind, from + inner, {count, step.stride});
          to += item_;
        });
        used_ = count * behind;
        flush();
        done += count;
      }
    });
  }

  // Returns a number of steps that touches at most kMaxTouchedBytes bytes.
  static std::size_t most_steps(const Dimension& dimension) {
    return kMaxTouchedBytes / std::clamp<std::size_t>(dimension.stride, 1, kFaultBytes);
  }

  void copy(std::byte* to, std::size_t to_step, const std::byte* from, Dimension steps) {
    copy_items({to, to_step}, {from, steps.stride}, steps.size, item_);
    if (storage_.release_pages == nullptr) return;
    const std::size_t first = window_of(from);
    const std::size_t last = window_of(from + (steps.size - 1) * steps.stride);
    touched_ +=
        (std::min(steps.size, last - first + 1) - (first == last_window_ ? 1 : 0)) * kFaultBytes;
    last_window_ = last;
    if (touched_ < kMaxTouchedBytes) return;
    storage_.release(storage_.view);
    touched_ = 0;
  }

  static std::size_t window_of(const std::byte* at) {
    return reinterpret_cast<std::uintptr_t>(at) / kFaultBytes;
  }

  void flush() {
    sink_.write(ByteView(buffer_).first(used_));
    used_ = 0;
  }

  const SharedBytes& storage_;
  ByteSink& sink_;
  std::size_t item_;
  std::vector<Dimension> dimensions_;
  const std::byte* start_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::size_t touched_ = 0;      // upper bound of the bytes touched since the last release
  std::size_t last_window_ = 0;  // the last touched window of kFaultBytes
};

}  // namespace

void write_elements(const TensorView& tensor, const SharedBytes& storage, ByteSink& sink,
                    std::size_t tile_bytes) {
  check_extent(tensor);
  const auto item = static_cast<std::int64_t>(item_size(tensor.dtype));
  const auto bytes = static_cast<std::size_t>(checked_multiply(tensor.numel(), item));
  if (bytes == 0) return;
  if (tensor.is_contiguous()) {
    const auto offset = static_cast<std::size_t>(tensor.storage_offset * item);
    for_each_piece(storage.part(offset, bytes), kStreamPieceBytes,
                   [&](ByteView piece) { sink.write(piece); });
  } else {
    Gatherer(tensor, storage, sink, tile_bytes).run();
  }
}

}  // namespace cairn

// Makes the dense form of a sparse tensor, piece by piece in order, without keeping it in memory.
//
// The stored values are cut into runs: elements that are contiguous in the dense form. A run is the
// dense dimensions of one stored element. In layouts with blocks, a run is the dense dimensions of
// one row of a block. All runs of a tensor have the same length, so that a run's position is
// counted in runs. The values in row-major order are the runs, one after another.
//
//  1. Check the compressed indices, since they are used as ranges.
//  2. Check whether the positions ascend. If not, sort the runs by position.
//  3. Emit zeros up to the next position, then its run. Sum the runs of one position.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "cairn/error.h"
#include "cairn/sparse_tensor.h"

#include "core/checked.h"
#include "value/tensor/element_reader.h"
#include "value/tensor/element_sum.h"

namespace cairn {
namespace {

constexpr std::uint64_t kDensePieceBytes = std::uint64_t{1} << 16;

[[noreturn]] void fail(const std::string& what) {
  throw CorruptError("a sparse tensor contradicts itself: " + what);
}

std::uint64_t product(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{1},
                         [](std::uint64_t n, std::int64_t size) {
                           return checked_multiply(n, static_cast<std::uint64_t>(size));
                         });
}

// The positions of a tensor's runs.
class Positions {
 public:
  virtual ~Positions() = default;
  virtual std::uint64_t runs() const = 0;
  virtual std::uint64_t of_run(std::uint64_t run) const = 0;  // CorruptError if outside the shape
};

class CooPositions final : public Positions {
 public:
  explicit CooPositions(const SparseTensor& tensor)
      : indices_(tensor.indices), runs_(static_cast<std::uint64_t>(tensor.indices.shape[1])) {
    const auto dims = static_cast<std::size_t>(tensor.indices.shape[0]);
    sizes_.assign(tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(dims));
  }
  std::uint64_t runs() const override { return runs_; }
  std::uint64_t of_run(std::uint64_t run) const override {
    std::uint64_t position = 0;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      const std::int64_t index = indices_.integer(d * runs_ + run);
      if (index < 0 || index >= sizes_[d]) {
        fail("index " + std::to_string(index) + " of a dimension of " + std::to_string(sizes_[d]));
      }
      position =
          position * static_cast<std::uint64_t>(sizes_[d]) + static_cast<std::uint64_t>(index);
    }
    return position;
  }

 private:
  ElementReader indices_;
  std::uint64_t runs_;
  std::vector<std::int64_t> sizes_;
};

// "Major" is the dimension whose indices are compressed, "minor" the other one. Sizes and indices
// of both dimensions count blocks. Layouts without blocks have blocks of one row.
class CompressedPositions final : public Positions {
 public:
  explicit CompressedPositions(const SparseTensor& tensor)
      : compressed_(tensor.compressed_indices), plain_(tensor.indices) {
    const std::size_t batch = tensor.indices.shape.size() - 1;
    const bool has_blocks =
        tensor.layout == Layout::kSparseBsr || tensor.layout == Layout::kSparseBsc;
    by_row_ = tensor.layout == Layout::kSparseCsr || tensor.layout == Layout::kSparseBsr;
    const auto size = [&](std::size_t d) { return static_cast<std::uint64_t>(tensor.shape[d]); };
    const auto of_block = [&](std::size_t d) {
      return has_blocks ? static_cast<std::uint64_t>(tensor.values.shape[batch + 1 + d]) : 1;
    };
    block_rows_ = of_block(0);
    rows_ = size(batch) / of_block(0);
    columns_ = size(batch + 1) / of_block(1);
    batches_ = product(std::span(tensor.shape).first(batch));
    per_batch_ = static_cast<std::uint64_t>(tensor.indices.shape[batch]);
    check_compressed_indices();
  }

  std::uint64_t runs() const override { return batches_ * per_batch_ * block_rows_; }

  std::uint64_t of_run(std::uint64_t run) const override {
    const std::uint64_t element = run / block_rows_;
    const std::uint64_t batch = element / per_batch_;
    const std::uint64_t major = major_of(batch, element % per_batch_);
    const std::int64_t index = plain_.integer(element);
    const std::uint64_t sizes = by_row_ ? columns_ : rows_;
    if (index < 0 || static_cast<std::uint64_t>(index) >= sizes) {
      fail("index " + std::to_string(index) + " of a dimension of " + std::to_string(sizes));
    }
    const auto minor = static_cast<std::uint64_t>(index);
    const std::uint64_t row = (batch * rows_ + (by_row_ ? major : minor)) * block_rows_;
    return (row + run % block_rows_) * columns_ + (by_row_ ? minor : major);
  }

 private:
  std::uint64_t majors() const { return by_row_ ? rows_ : columns_; }
  std::uint64_t bound(std::uint64_t batch, std::uint64_t major) const {
    return static_cast<std::uint64_t>(compressed_.integer(batch * (majors() + 1) + major));
  }

  // Throws unless the compressed indices begin with 0, never descend, and end with the number of
  // elements.
  void check_compressed_indices() const {
    for (std::uint64_t batch = 0; batch < batches_; ++batch) {
      std::uint64_t last = 0;
      for (std::uint64_t major = 0; major <= majors(); ++major) {
        const std::uint64_t next = bound(batch, major);
        const bool fits = major == 0 ? next == 0 : next >= last && next <= per_batch_;
        if (!fits) fail("its compressed indices do not ascend");
        last = next;
      }
      if (last != per_batch_) fail("its compressed indices do not end with the number of values");
    }
  }

  // Returns the last major index that begins at or before `element`.
  std::uint64_t major_of(std::uint64_t batch, std::uint64_t element) const {
    std::uint64_t low = 0;
    std::uint64_t high = majors();
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (bound(batch, middle) <= element ? low : high) = middle;
    }
    return low;
  }

  ElementReader compressed_;
  ElementReader plain_;
  bool by_row_ = true;
  std::uint64_t block_rows_ = 1;
  std::uint64_t rows_ = 0;
  std::uint64_t columns_ = 0;
  std::uint64_t batches_ = 1;
  std::uint64_t per_batch_ = 0;
};

std::unique_ptr<const Positions> positions_of(const SparseTensor& tensor) {
  if (tensor.layout == Layout::kSparseCoo) return std::make_unique<CooPositions>(tensor);
  return std::make_unique<CompressedPositions>(tensor);
}

struct Placed {
  std::uint64_t position = 0;
  std::uint64_t run = 0;
  auto operator<=>(const Placed&) const = default;  // NOLINT(modernize-use-nullptr): false alarm
};

// The runs in the order of their positions. Runs of one position keep the order in which they are
// stored.
class Order {
 public:
  explicit Order(const Positions& positions) : positions_(positions) {
    std::uint64_t last = 0;
    for (std::uint64_t run = 0; run < positions.runs(); ++run) {
      const std::uint64_t next = positions.of_run(run);
      if (next < last) {
        sort();
        break;
      }
      last = next;
    }
  }
  Placed at(std::uint64_t i) const {
    return sorted_.empty() ? Placed{positions_.of_run(i), i} : sorted_[i];
  }

 private:
  void sort() {
    sorted_.resize(positions_.runs());
    for (std::uint64_t run = 0; run < sorted_.size(); ++run) {
      sorted_[run] = {positions_.of_run(run), run};
    }
    std::sort(sorted_.begin(), sorted_.end());
  }

  const Positions& positions_;
  std::vector<Placed> sorted_;  // empty if the runs are stored in order
};

class DenseStream {
 public:
  DenseStream(const SparseTensor& tensor, const std::function<void(ByteView)>& use)
      : values_(tensor.values),
        dtype_(tensor.dtype()),
        is_coo_(tensor.layout == Layout::kSparseCoo),
        use_(use),
        piece_(kDensePieceBytes),
        other_(kDensePieceBytes) {}

  void run(const Positions& positions, std::uint64_t dense_elements) {
    const std::uint64_t runs = positions.runs();
    elements_per_run_ = runs == 0 ? 0 : values_.numel() / runs;
    const Order order(positions);
    std::uint64_t done = 0;  // elements
    for (std::uint64_t i = 0; i < runs;) {
      const std::uint64_t position = order.at(i).position;
      same_.clear();
      for (; i < runs && order.at(i).position == position; ++i) {
        same_.push_back(order.at(i).run);
      }
      if (same_.size() > 1 && !is_coo_) fail("an index occurs twice");
      emit_zeros(position * elements_per_run_ - done);
      emit_sum();
      done = (position + 1) * elements_per_run_;
    }
    emit_zeros(dense_elements - done);
  }

 private:
  void emit_zeros(std::uint64_t elements) {
    std::fill(piece_.begin(), piece_.end(), std::byte{0});
    for (std::uint64_t bytes = elements * values_.item_size(); bytes > 0;) {
      const std::uint64_t count = std::min(bytes, kDensePieceBytes);
      use_(ByteView(piece_).first(count));
      bytes -= count;
    }
  }

  // PyTorch adds to a dense tensor of zeros, so -0.0 becomes 0.0.
  void emit_sum() {
    const std::size_t item = values_.item_size();
    const std::uint64_t at_once = kDensePieceBytes / item;
    for (std::uint64_t done = 0; done < elements_per_run_; done += at_once) {
      const std::size_t bytes = std::min(at_once, elements_per_run_ - done) * item;
      const std::span<std::byte> sum(piece_.data(), bytes);
      const std::span<std::byte> term(other_.data(), bytes);
      if (!has_sum(dtype_) && same_.size() == 1) {
        values_.read(same_[0] * elements_per_run_ + done, sum);
      } else {
        std::fill(sum.begin(), sum.end(), std::byte{0});
        for (const std::uint64_t run : same_) {
          values_.read(run * elements_per_run_ + done, term);
          add_elements(dtype_, term, sum);
        }
      }
      use_(sum);
    }
  }

  ElementReader values_;
  DType dtype_;
  bool is_coo_;
  const std::function<void(ByteView)>& use_;
  std::uint64_t elements_per_run_ = 0;
  std::vector<std::byte> piece_;
  std::vector<std::byte> other_;
  std::vector<std::uint64_t> same_;  // the runs of one position
};

std::uint64_t stored_bytes(const SparseTensor& tensor) {
  std::uint64_t stored = 0;
  for (const auto& [name, part] : parts_of(tensor)) {
    if (part->storage) stored = checked_add(stored, part->storage->size());
  }
  return stored;
}

std::uint64_t dense_bytes(const SparseTensor& tensor) {
  return checked_multiply<std::uint64_t>(static_cast<std::uint64_t>(tensor.numel()),
                                         item_size(tensor.dtype()));
}

// Indices may be a view that repeats one number. Going through such indices would take time for
// what the file only claims.
void check_indices(const SparseTensor& tensor, std::uint64_t stored) {
  for (const auto& [name, part] : parts_of(tensor)) {
    const bool is_index = part != &tensor.values;
    if (is_index && static_cast<std::uint64_t>(part->numel()) > stored) {
      fail("it has more indices than bytes");
    }
  }
}

}  // namespace

bool is_dense_form_in_proportion(const SparseTensor& tensor) {
  constexpr std::uint64_t kFreeBytes = std::uint64_t{64} << 20;
  constexpr std::uint64_t kMaxBytesPerByte = 64;
  const std::uint64_t dense = dense_bytes(tensor);
  return dense <= kFreeBytes || dense / kMaxBytesPerByte <= stored_bytes(tensor);
}

void for_each_dense_piece(const SparseTensor& tensor, const std::function<void(ByteView)>& use) {
  check_structure(tensor);
  if (tensor.numel() == 0) return;
  if (!is_dense_form_in_proportion(tensor)) {
    throw UnsupportedError(
        "the dense form of a sparse tensor is out of proportion: its parts have " +
        std::to_string(stored_bytes(tensor)) + " bytes, and the dense form would have " +
        std::to_string(dense_bytes(tensor)));
  }
  check_indices(tensor, stored_bytes(tensor));
  const auto positions = positions_of(tensor);
  if (positions->runs() > stored_bytes(tensor)) fail("it has more values than bytes");
  DenseStream(tensor, use).run(*positions, static_cast<std::uint64_t>(tensor.numel()));
}

}  // namespace cairn

// What is written of one file, before its first byte is: which bytes stand where.
//
// A file is parts, the bytes of tensors, and what stands between them: headers, the pickle,
// padding, checksums behind the data that they cover. All offsets follow from names, shapes and
// dtypes, and are known when the plan is made; of the rest only the length, until the checksums
// before it are known. Whoever writes a plan is an executor: stream_plan.h, file_image.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/tensor.h"

namespace cairn {

class CheckpointPlan {
 public:
  struct Part {
    std::shared_ptr<const Storage> storage = nullptr;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size = 0;
    // Only these elements of the storage, in row-major order; nullptr: all of its bytes, as they
    // lie. The plan owns them.
    const TensorView* elements = nullptr;
  };

  // What an executor computes of every part while it writes.
  enum class Check : std::uint8_t {
    kCrc32,      // of what was written; stands behind the part
    kXxh3First,  // XXH3-64 of all parts, before anything is written: stands in front of them
    kNone,
  };

  virtual ~CheckpointPlan() = default;

  // In file order.
  const std::vector<Part>& parts() const { return parts_; }
  virtual Check check() const = 0;
  // Of the whole file. May cost time in proportion to the number of parts.
  virtual std::uint64_t size() const = 0;

  // Appends what stands between the parts `index - 1` and `index`; before the first, and behind the
  // last, for 0 and parts().size(). `checks`: of every part before it (kXxh3First: of all).
  virtual void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                              std::string& out) const = 0;

  // How messages about part `index` call it; empty when they need not.
  virtual std::string name_of(std::size_t /*index*/) const { return {}; }

  // Where what stands before part `index` begins; it ends where the part begins.
  std::uint64_t between_begin(std::size_t index) const {
    return index == 0 ? 0 : parts_[index - 1].offset + parts_[index - 1].size;
  }
  std::uint64_t tail_begin() const { return between_begin(parts_.size()); }

 protected:
  std::vector<Part> parts_;
};

}  // namespace cairn

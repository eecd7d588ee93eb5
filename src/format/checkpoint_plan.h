// The plan of one file, made before its first byte is written: which bytes go where.
//
// A file consists of parts (the bytes of tensors) and of the bytes between them: headers, the
// pickle, padding, checksums after the data that they cover. When the plan is made, all offsets are
// known from names, shapes and dtypes. The length of the bytes between parts is then known, too.
// Their content is known only after the preceding checksums are computed. An executor writes a
// plan: stream_plan.h, file_image.h.
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
    // If not null, the part is only these elements of the storage, in row-major order. If null, it
    // is all bytes of the storage as they lie. The plan owns the view.
    const TensorView* elements = nullptr;
  };

  // The checksum that an executor computes of each part while it writes.
  enum class Check : std::uint8_t {
    kCrc32,      // of the written bytes; stored after the part
    kXxh3First,  // XXH3-64 of all parts, computed before anything is written: stored before them
    kNone,
  };

  virtual ~CheckpointPlan() = default;

  // The parts, in file order.
  const std::vector<Part>& parts() const { return parts_; }
  virtual Check check() const = 0;
  // The size of the whole file. May take time in proportion to the number of parts.
  virtual std::uint64_t size() const = 0;

  // Appends the bytes between the parts `index - 1` and `index`. 0 means those before the first
  // part, parts().size() those after the last. `checks` holds the checksums of all parts before
  // `index` (kXxh3First: of all parts).
  virtual void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                              std::string& out) const = 0;

  // The name of part `index` in messages. Empty if messages need no name.
  virtual std::string name_of(std::size_t /*index*/) const { return {}; }

  // The offset at which the bytes before part `index` begin. They end where the part begins.
  std::uint64_t between_begin(std::size_t index) const {
    return index == 0 ? 0 : parts_[index - 1].offset + parts_[index - 1].size;
  }
  std::uint64_t tail_begin() const { return between_begin(parts_.size()); }

 protected:
  std::vector<Part> parts_;
};

}  // namespace cairn

// The asynchronous saver's snapshot: memory laid out like the file itself.
//
//  1. The offset of each storage follows from the sizes of the earlier storages and the size of the
//     pickle's record. The pickle's record has room to grow, so it keeps its size as long as names,
//     shapes and dtypes stay. So the caller's thread, for which training waits, only walks the tree
//     once and copies. The thread encodes the tree only the first time and when the storages
//     differ.
//  2. The tree is encoded. If its plan puts the storages at the offsets of step 1, the memory is
//     the file's image, and headers are written into the gaps.
//  3. If the offsets differ, another executor writes from the copies. This happens if the pickle
//     has outgrown its room, or if the StorageList differs from the pickle's list.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cairn/value.h"

#include "checkpoint/plan/snapshot.h"
#include "format/torch_plan.h"
#include "io/bytes/positional_sink.h"

namespace cairn {

// The result of step 1. A FileImage may be moved to another thread.
class FileImage {
 public:
  // The layout of the previous image. All images of a saver share one Layout.
  struct Layout {
    std::vector<std::uint64_t> sizes = {};        // of the storages
    std::atomic<std::uint64_t> pickle_bytes = 0;  // 0: not known
    StorageList::Parts known = {};                // of the previous tree
    pickle::EncodeMemory encoded = {};            // used by plan(), too
    std::size_t known_sizes = 0;              // how many of the first sizes are those of `known`
    std::vector<std::uint64_t> offsets = {};  // of the storages
    std::uint64_t offsets_for = 0;            // the pickle_bytes for which `offsets` hold; 0: none
    std::uint64_t end = 0;                    // after the last storage
  };

  // Does step 1. Only one thread at a time may use `layout`, except in plan(). Throws what loading
  // a storage throws.
  FileImage(Value value, Snapshotter& snapshotter, std::shared_ptr<Layout> layout);

  // Returns a function that finds the copy of a storage of the value (empty if the storage was not
  // copied). Call copies() before plan(). Only one thread at a time may call the function.
  std::function<SharedBytes(const Storage& storage)> copies() const;

  // Does step 2; call it once. Throws what pickle::encode() throws. Afterwards the Value is gone,
  // and with it the live tensors. `as_image`: makes a plan for write(), if possible. If `as_image`
  // is false or it is not possible, the parts of the plan are the copies.
  TorchPlan plan(const TorchFileWriteOptions& options, bool as_image);
  // Whether write() can write the plan that plan() returned.
  bool is_image() const { return is_image_; }
  // Writes the plan without copying a block.
  void write(const TorchPlan& plan, PositionalSink& sink) const;

 private:
  bool note_sizes(const StorageList& list, std::size_t known_sizes);
  void encode();
  void place();
  bool is_laid_out_as(const TorchPlan& plan) const;
  void bind(TorchPlan& plan) const;

  Value value_;
  std::optional<pickle::Encoded> encoded_;
  std::shared_ptr<Layout> layout_;
  std::vector<const Storage*> storages_;
  std::vector<std::uint64_t> offsets_;  // of the copies in memory_
  std::shared_ptr<PageMemory> memory_;
  bool is_image_ = false;
};

}  // namespace cairn

// The asynchronous saver's snapshot: an arena laid out as the file itself.
//
//  1. Where every storage will stand follows from the storages before it and the size of the
//     pickle's record, which has room to grow: as long as names, shapes and dtypes stay it is that
//     of the save before. So the caller's thread, which training waits for, only walks the tree
//     once and copies; the first time, and when the storages are others, it encodes the tree, too.
//  2. The tree is encoded. When its plan puts the storages where they lie, the arena is the file's
//     image: headers are written into the gaps.
//  3. Otherwise (the pickle has outgrown its room, a storage hides where StorageList does not look)
//     the copies are only memory from which another executor writes.
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

// Step 1's result. Movable; may be handed to another thread.
class FileImage {
 public:
  // What the image before was laid out for: one for all images of a saver.
  struct Layout {
    std::vector<std::uint64_t> sizes = {};        // of the storages
    std::atomic<std::uint64_t> pickle_bytes = 0;  // 0: not known
    StorageList::Parts known = {};                // of the tree before
    pickle::EncodeMemory encoded = {};            // for plan(), too
    std::size_t known_sizes = 0;                  // so many of the first sizes are those of `known`
    std::vector<std::uint64_t> offsets = {};      // of the storages
    std::uint64_t offsets_for = 0;                // the pickle_bytes that they are for; 0: for none
    std::uint64_t end = 0;                        // behind the last storage
  };

  // Step 1. `layout` is used by one thread at a time, but for plan(). Errors of
  // storages that have to be loaded.
  FileImage(Value value, Snapshotter& snapshotter, std::shared_ptr<Layout> layout);

  // Returns a function that finds the copy of a storage of the value (empty: it was not copied).
  // Call copies() before plan(). Only one thread at a time may call the function.
  std::function<SharedBytes(const Storage& storage)> copies() const;

  // Step 2, once. Errors as pickle::encode(). Then the Value, and the live tensors with it, is
  // gone. `as_image`: what write() can write, if possible; otherwise the parts of the plan are the
  // copies.
  TorchPlan plan(const TorchFileWriteOptions& options, bool as_image);
  // Of that plan: whether write() can write it.
  bool is_image() const { return is_image_; }
  // Writes it without copying a block.
  void write(const TorchPlan& plan, PositionalSink& sink) const;

 private:
  bool note_sizes(const StorageList& list, std::size_t known_sizes);
  void encode();
  void place();
  bool lies_as(const TorchPlan& plan) const;
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

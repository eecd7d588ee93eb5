// Copies the bytes of a state tree's tensors, so that training may go on changing the originals.
//
// All copies are in one arena. The next snapshot uses the arena again once nothing points into it:
// copying into memory that was touched before is ten times as fast as into fresh memory. All cores
// copy large states. Training waits for the copy, and one core does not use the full memory
// bandwidth.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "cairn/value.h"

#include "io/memory/page_memory.h"

namespace cairn {

// Lists the storages of a tree, each once, in the order in which the tree's pickle first uses them.
// The list may differ from the pickle's if a storage is inside a Foreign or in a dict's attributes.
class StorageList {
 public:
  // Parts of a tree that have other owners, too. In the next tree, a part with the same identity()
  // is unchanged. The parts are the first dicts with many entries, as long as no tensor comes
  // before or between them. `storages` has all storages in these parts, and `bytes` has the bytes
  // of each, or is empty where they cannot be viewed. Keeps the memory of these tensors alive.
  struct Parts {
    struct Part {
      Value value = {};
      std::size_t end = 0;  // the end of its storages; they follow those of the previous part
    };
    std::vector<Part> parts = {};
    std::vector<const Storage*> storages = {};
    std::vector<SharedBytes> bytes = {};
  };

  // With `known`, the first parts of `known` that the tree still has are not walked again.
  // Afterwards `known` describes this tree.
  explicit StorageList(const Value& root, Parts* known = nullptr);

  // Pointers into the tree. nullptr stands for the empty storage of a tensor without a storage.
  std::span<const Storage* const> storages() const { return storages_; }
  // How many of the first storages are in `known` now, and how many of these were in `known`
  // before.
  std::size_t known_count() const { return known_count_; }
  std::size_t unchanged_count() const { return unchanged_count_; }

 private:
  void add(const TensorView& tensor, bool comes_once);
  void add(const std::shared_ptr<const Storage>& storage, bool comes_once);
  void visit(const Value& value);
  void visit_contents(const Value& value);
  void visit_part(const Value& value);
  void visit_new_part(const Value& value);
  void keep_first_parts(std::size_t parts);

  Parts* known_;
  bool is_in_part_ = false;
  std::size_t parts_ = 0;  // the number of parts of `known` that were visited
  std::size_t known_count_ = 0;
  std::size_t unchanged_count_ = 0;
  std::size_t shared_around_ = 0;  // how many of the values being visited are may_be_shared()
  std::size_t seen_count_ = 0;     // how many of the unchanged storages are in seen_
  std::vector<const Storage*> storages_;
  // Values that may appear again in the tree: containers and tensors by their identities, and
  // storages.
  std::unordered_set<const void*> seen_;
};

class Snapshotter {
 public:
  Snapshotter();
  ~Snapshotter();  // memory that taken Values still use stays until they are gone
  Snapshotter(const Snapshotter&) = delete;
  Snapshotter& operator=(const Snapshotter&) = delete;

  // Returns `value` with the bytes of every storage copied, each storage once. Values that shared a
  // storage or a container share the copy. Only tensors are copied; other values are immutable. The
  // arena belongs to the returned Value and its copies, and grows if it is too small. Only one
  // thread at a time may call this. Any thread may read and drop the returned Values.
  Value take(const Value& value);

  // Copies the bytes of `storages` to `offsets` of an arena of `bytes` bytes. The offsets ascend,
  // and the storages do not overlap. Between the storages, and after the last, the arena keeps its
  // old contents. `views` has the bytes of the first storages; an empty view is ignored. Otherwise
  // the same as the other take().
  std::shared_ptr<PageMemory> take(std::span<const Storage* const> storages,
                                   std::span<const std::uint64_t> offsets, std::uint64_t bytes,
                                   std::span<const SharedBytes> views = {});

  // The memory in arenas, in use and spare. For tests.
  std::uint64_t arena_bytes() const;

 private:
  struct Pool;
  struct Arena;
  std::shared_ptr<PageMemory> arena(std::uint64_t bytes);
  std::shared_ptr<Pool> pool_;
};

}  // namespace cairn

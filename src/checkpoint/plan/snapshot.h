// Making a state tree stable: the bytes of its tensors copied aside, so that training may go on
// changing the originals.
//
// The copies lie in one arena, which is used again by the next snapshot once nothing points into it
// any more: copying into memory that was touched before is ten times as fast as into fresh memory.
// Large states are copied by all cores: training waits for it, and one core does not use all that
// the memory gives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "cairn/value.h"

#include "io/memory/page_memory.h"

namespace cairn {

// The storages of a tree, each once, in the order in which its pickle first uses them, as long as
// no storage hides in a Foreign or in a dict's attributes.
class StorageList {
 public:
  // Parts of a tree that others hold on to, which are therefore the same the next time when they
  // have the same identity(): the first dicts of many entries, as long as no tensor stands before
  // or between them, with all storages in them and their bytes, as far as they can be viewed
  // (others: empty). Keeps the memory of those tensors.
  struct Parts {
    struct Part {
      Value value = {};
      std::size_t end = 0;  // behind its storages, which follow those of the part before
    };
    std::vector<Part> parts = {};
    std::vector<const Storage*> storages = {};
    std::vector<SharedBytes> bytes = {};
  };

  // With `known` they are not walked through again, as far as the tree has the first ones; it
  // becomes what there is now.
  explicit StorageList(const Value& root, Parts* known = nullptr);

  // Pointers into the tree. nullptr: that of tensors without one, which is empty.
  std::span<const Storage* const> storages() const { return storages_; }
  // How many of the first ones are those of `known`; and how many were before.
  std::size_t known_count() const { return known_count_; }
  std::size_t unchanged_count() const { return unchanged_count_; }

 private:
  void add(const TensorView& tensor, bool comes_once);
  void add(const std::shared_ptr<const Storage>& storage, bool comes_once);
  void visit(const Value& value);
  void visit_contents(const Value& value);
  void visit_part(const Value& value);
  void visit_new_part(const Value& value);
  void know_only_first(std::size_t parts);

  Parts* known_;
  bool is_in_part_ = false;
  std::size_t parts_ = 0;  // of `known` that were met
  std::size_t known_count_ = 0;
  std::size_t unchanged_count_ = 0;
  std::size_t shared_around_ = 0;  // so many of what is being visited are may_be_shared()
  std::size_t seen_count_ = 0;     // so many of the unchanged ones are in seen_
  std::vector<const Storage*> storages_;
  // What may come by again: containers and tensors by their identities, storages.
  std::unordered_set<const void*> seen_;
};

class Snapshotter {
 public:
  Snapshotter();
  ~Snapshotter();  // memory that taken Values still use lives on with them
  Snapshotter(const Snapshotter&) = delete;
  Snapshotter& operator=(const Snapshotter&) = delete;

  // `value` with the bytes of every storage copied, each storage once: what shared a storage, or a
  // container, shares the copy. Nothing but tensors is copied; other values are immutable.
  // The arena belongs to the returned Value and its copies, and grows when it is too small.
  // One thread at a time; the returned Values may be read and dropped in any thread.
  Value take(const Value& value);

  // The bytes of storages copied to `offsets` of an arena, which has `bytes` of them. The offsets
  // ascend, and storages do not overlap. Between them, and behind the last, it has what it had
  // before. Of the first storages `views` are the bytes, where they are not empty. Otherwise as
  // take().
  std::shared_ptr<PageMemory> take(std::span<const Storage* const> storages,
                                   std::span<const std::uint64_t> offsets, std::uint64_t bytes,
                                   std::span<const SharedBytes> views = {});

  // Memory held in arenas, in use and spare: for tests.
  std::uint64_t arena_bytes() const;

 private:
  struct Pool;
  struct Arena;
  std::shared_ptr<PageMemory> arena(std::uint64_t bytes);
  std::shared_ptr<Pool> pool_;
};

}  // namespace cairn

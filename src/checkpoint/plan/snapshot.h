// Making a state tree stable: the bytes of its tensors copied aside, so that training may go on
// changing the originals.
//
// The copies lie in one arena, which is used again by the next snapshot once nothing points into it
// any more: copying into memory that was touched before is ten times as fast as into fresh memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "cairn/value.h"

#include "io/page_memory.h"

namespace cairn {

// The storages of a tree, each once, in the order in which its pickle first uses them, as long as
// no storage hides in a Foreign or in a dict's attributes.
class StorageList {
 public:
  // A part of a tree that others hold on to, which is therefore the same the next time when it has
  // the same identity(): the first dict of many entries, with all storages in it and their bytes,
  // as far as they can be viewed (others: empty). Keeps the memory of those tensors.
  struct Part {
    Value value = {};
    std::vector<const Storage*> storages = {};
    std::vector<SharedBytes> bytes = {};
  };

  // With `known` it is not walked through again where the tree has it; else it becomes what there
  // is now.
  explicit StorageList(const Value& root, Part* known = nullptr);

  // Pointers into the tree. nullptr: that of tensors without one, which is empty.
  std::span<const Storage* const> storages() const { return storages_; }
  // How many of the first ones are those of `known`; and whether they were before.
  std::size_t known_count() const { return known_count_; }
  bool was_known() const { return was_known_; }

 private:
  void add(const TensorView& tensor, bool comes_once);
  void add(const std::shared_ptr<const Storage>& storage, bool comes_once);
  void visit(const Value& value);
  void visit_contents(const Value& value);
  void visit_part(const Value& value);

  Part* known_;
  bool is_before_part_ = true;
  bool was_known_ = false;
  std::size_t known_count_ = 0;
  std::size_t shared_around_ = 0;  // so many of what is being visited are may_be_shared()
  std::size_t seen_part_ = 0;      // known_count_ when seen_ has them
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

  // The bytes of storages copied to `offsets` of an arena, which has `bytes` of them. Between them,
  // and behind the last, it has what it had before. Of the first storages `views` are the bytes,
  // where they are not empty. Otherwise as take().
  std::shared_ptr<PageMemory> take(std::span<const Storage* const> storages,
                                   std::span<const std::uint64_t> offsets, std::uint64_t bytes,
                                   std::span<const SharedBytes> views = {});

  // Memory held in arenas, in use and spare: for tests.
  std::uint64_t arena_bytes() const;

 private:
  struct Pool;
  std::shared_ptr<PageMemory> arena(std::uint64_t bytes);
  std::shared_ptr<Pool> pool_;
};

}  // namespace cairn

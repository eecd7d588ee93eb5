#include "checkpoint/plan/snapshot.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "checkpoint/open/read_storages.h"
#include "core/round_up.h"
#include "io/bytes/stream_copy.h"
#include "io/memory/page_memory.h"
#include "io/threads/parallel.h"

namespace cairn {
namespace {

// The alignment of each storage: a cache line, and the alignment that torch uses.
constexpr std::size_t kSnapshotAlignment = 64;
constexpr std::size_t kGranule = std::size_t{2} << 20;
constexpr std::size_t kManyEntries = 64;
// Bytes that one thread copies at a time. One core alone does not use the full memory bandwidth.
constexpr std::uint64_t kCopiedAtOnce = std::uint64_t{32} << 20;

bool can_hold_tensors(const Value& value) {
  return value.is_tensor() || value.kind() == Kind::kSparse || value.is_list() ||
         value.is_tuple() || value.is_dict() || value.kind() == Kind::kSet;
}

const List& items_of(const Value& value) {
  return value.kind() == Kind::kSet ? value.as_set().items : value.as_items();
}

// Index of the first offset whose storage may reach beyond `begin`. The offsets ascend.
std::size_t first_in(std::span<const std::uint64_t> offsets, std::uint64_t begin) {
  const auto behind = std::upper_bound(offsets.begin(), offsets.end(), begin);
  if (behind == offsets.begin()) return 0;
  const auto first = std::lower_bound(offsets.begin(), behind, *std::prev(behind));
  return static_cast<std::size_t>(first - offsets.begin());
}

// Copies a tree, with the copied storages in place of the originals.
class TreeCopy {
 public:
  using Copies = std::unordered_map<const Storage*, std::shared_ptr<const Storage>>;
  explicit TreeCopy(const Copies& copies) : copies_(copies) {}

  Value copy(const Value& value) {
    if (!can_hold_tensors(value) || value.identity() == nullptr) return value;
    if (const auto seen = seen_.find(value.identity()); seen != seen_.end()) return seen->second;
    return seen_.emplace(value.identity(), copy_new(value)).first->second;
  }

 private:
  Value copy_new(const Value& value) {
    if (value.is_tensor()) return copy_of(value.as_tensor());
    if (value.kind() == Kind::kSparse) {
      SparseTensor sparse = value.as_sparse();
      sparse.compressed_indices = copy_of(std::move(sparse.compressed_indices));
      sparse.indices = copy_of(std::move(sparse.indices));
      sparse.values = copy_of(std::move(sparse.values));
      return sparse;
    }
    if (value.is_dict()) {
      Dict dict = value.as_dict().empty_like();
      for (const auto& [key, item] : value.as_dict()) {
        dict.set(copy(key), copy(item));
      }
      const Value& attributes = value.as_dict().attributes();
      if (!attributes.is_none()) dict.set_attributes(copy(attributes));
      return dict;
    }
    List items;
    items.reserve(items_of(value).size());
    for (const Value& item : items_of(value)) {
      items.push_back(copy(item));
    }
    if (value.kind() == Kind::kSet) return Set{std::move(items), value.as_set().frozen};
    return value.is_tuple() ? Value(Tuple{std::move(items)}) : Value(std::move(items));
  }

  TensorView copy_of(TensorView tensor) const {
    const auto copy = copies_.find(tensor.storage.get());
    if (copy != copies_.end()) tensor.storage = copy->second;
    if (tensor.quantizer != nullptr) {
      Quantizer quantizer = *tensor.quantizer;
      quantizer.scales = copy_of(std::move(quantizer.scales));
      quantizer.zero_points = copy_of(std::move(quantizer.zero_points));
      tensor.quantizer = std::make_shared<const Quantizer>(std::move(quantizer));
    }
    return tensor;
  }

  const Copies& copies_;
  std::unordered_map<const void*, Value> seen_;  // so that a shared object stays one object
};

}  // namespace

StorageList::StorageList(const Value& root, Parts* known) : known_(known) {
  visit(root);
  if (known_ != nullptr) keep_first_parts(parts_);  // the tree has no other parts any more
}

// A storage with a single owner appears only once in the tree, so it need not be remembered. In
// most states every storage has a single owner.
void StorageList::add(const std::shared_ptr<const Storage>& storage, bool comes_once) {
  if (comes_once && storage.use_count() == 1) return storages_.push_back(storage.get());
  // unchanged storages are added only now, since most walks do not need them in seen_
  for (; seen_count_ < unchanged_count_; ++seen_count_) {
    seen_.insert(storages_[seen_count_]);
  }
  if (seen_.insert(storage.get()).second) storages_.push_back(storage.get());
}

void StorageList::add(const TensorView& tensor, bool comes_once) {
  add(tensor.storage, comes_once);
  if (tensor.quantizer == nullptr || !tensor.quantizer->axis) return;
  add(tensor.quantizer->scales.storage, false);  // several tensors may share a quantizer
  add(tensor.quantizer->zero_points.storage, false);
}

void StorageList::visit(const Value& value) {
  if (!can_hold_tensors(value)) return;
  const bool is_shared = value.may_be_shared();
  if (is_shared && !seen_.insert(value.identity()).second) return;
  const bool is_part = known_ != nullptr && is_shared && !is_in_part_ &&
                       storages_.size() == known_count_ && value.is_dict() &&
                       value.as_dict().size() >= kManyEntries;
  if (is_shared) ++shared_around_;
  is_part ? visit_part(value) : visit_contents(value);
  if (is_shared) --shared_around_;
}

// A part is unchanged only if all earlier parts are, since a part adds only storages that no
// earlier part has.
void StorageList::visit_part(const Value& value) {
  const bool is_unchanged = parts_ < known_->parts.size() && unchanged_count_ == known_count_ &&
                            known_->parts[parts_].value.identity() == value.identity();
  if (is_unchanged) {
    const auto begin = known_->storages.begin();
    unchanged_count_ = known_->parts[parts_].end;
    storages_.insert(storages_.end(), begin + static_cast<std::ptrdiff_t>(known_count_),
                     begin + static_cast<std::ptrdiff_t>(unchanged_count_));
  } else {
    keep_first_parts(parts_);  // releases the old parts' memory first
    is_in_part_ = true;
    visit_new_part(value);
    is_in_part_ = false;
  }
  known_count_ = storages_.size();
  ++parts_;
}

void StorageList::visit_new_part(const Value& value) {
  visit_contents(value);
  for (std::size_t i = known_count_; i < storages_.size(); ++i) {
    const Storage* const storage = storages_[i];
    auto bytes = storage == nullptr ? std::nullopt : storage->try_view();
    known_->storages.push_back(storage);
    known_->bytes.push_back(bytes ? *std::move(bytes) : SharedBytes{});
  }
  known_->parts.push_back({value, storages_.size()});
}

void StorageList::keep_first_parts(std::size_t parts) {
  const std::size_t end = parts == 0 ? 0 : known_->parts[parts - 1].end;
  known_->parts.resize(parts);
  known_->storages.resize(end);
  known_->bytes.resize(end);
}

void StorageList::visit_contents(const Value& value) {
  // A value below a shared container may also be in a part that was not walked again.
  const bool comes_once = unchanged_count_ == 0 || shared_around_ == 0;
  if (value.is_tensor()) {
    add(value.as_tensor(), comes_once);
  } else if (value.kind() == Kind::kSparse) {
    for (const auto& [name, tensor] : parts_of(value.as_sparse())) {
      add(*tensor, comes_once);
    }
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict()) {
      visit(key);
      visit(item);
    }
    visit(value.as_dict().attributes());
  } else {
    for (const Value& item : items_of(value)) {
      visit(item);
    }
  }
}

// Each arena in use keeps the pool alive, and returns to the pool when nothing points into the
// arena any more.
struct Snapshotter::Pool {
  std::mutex mutex;
  std::list<PageMemory> spare;
  std::uint64_t bytes = 0;  // in use and spare

  // Takes a spare arena of at least `size`, or makes a new arena in place of the largest spare one.
  // Returns the arena in a list, so that giving it back takes no memory.
  std::list<PageMemory> take(std::size_t size) {
    const std::lock_guard lock(mutex);
    const auto by_size = [](const PageMemory& a, const PageMemory& b) {
      return a.size() < b.size();
    };
    std::list<PageMemory> taken;
    if (spare.empty()) {
      taken.emplace_back();
    } else {
      taken.splice(taken.end(), spare, std::max_element(spare.begin(), spare.end(), by_size));
    }
    PageMemory& arena = taken.front();
    if (arena.size() >= size) return taken;
    bytes -= arena.size();
    // freed before the larger arena is made, so that the two never exist at once
    { const PageMemory freed = std::move(arena); }
    arena = PageMemory(round_up(size, kGranule));
    bytes += arena.size();
    return taken;
  }

  void give_back(std::list<PageMemory>& taken) noexcept {
    const std::lock_guard lock(mutex);
    spare.splice(spare.end(), taken);
  }
};

struct Snapshotter::Arena {
  explicit Arena(std::shared_ptr<Pool> of) : pool(std::move(of)) {}
  ~Arena() { pool->give_back(memory); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::shared_ptr<Pool> pool;
  std::list<PageMemory> memory;
};

Snapshotter::Snapshotter() : pool_(std::make_shared<Pool>()) {}

Snapshotter::~Snapshotter() = default;

std::shared_ptr<PageMemory> Snapshotter::arena(std::uint64_t bytes) {
  const auto arena = std::make_shared<Arena>(pool_);
  arena->memory = pool_->take(bytes);
  return {arena, &arena->memory.front()};
}

std::shared_ptr<PageMemory> Snapshotter::take(std::span<const Storage* const> storages,
                                              std::span<const std::uint64_t> offsets,
                                              std::uint64_t bytes,
                                              std::span<const SharedBytes> views) {
  std::shared_ptr<PageMemory> memory = arena(bytes);
  const std::size_t pieces = (bytes + kCopiedAtOnce - 1) / kCopiedAtOnce;
  // reads from devices and files; they are done together at the end
  std::vector<std::vector<StorageRead>> reads(pieces);
  const auto copy_some = [&](std::size_t piece) {
    const std::uint64_t begin = piece * kCopiedAtOnce;
    const std::uint64_t end = std::min(bytes, begin + kCopiedAtOnce);
    const auto copy = [&](std::size_t i, ByteView from) {
      const std::uint64_t skipped = begin > offsets[i] ? begin - offsets[i] : 0;
      const std::uint64_t stop = std::min<std::uint64_t>(from.size(), end - offsets[i]);
      if (skipped >= stop) return;
      stream_copy_unfenced(memory->data() + offsets[i] + skipped, from.data() + skipped,
                           stop - skipped);
    };
    for (std::size_t i = first_in(offsets, begin); i < offsets.size() && offsets[i] < end; ++i) {
      if (i < views.size() && !views[i].view.empty()) {
        copy(i, views[i].view);
        continue;
      }
      const Storage* const storage = storages[i];
      if (storage == nullptr || storage->size() == 0) continue;
      if (const auto from = storage->try_view()) {
        copy(i, from->view);
      } else if (offsets[i] >= begin) {  // only where the storage begins, so it is read once
        const std::shared_ptr<const void> not_owned;
        reads[piece].push_back(
            {{not_owned, storage},
             {memory->data() + offsets[i], static_cast<std::size_t>(storage->size())}});
      }
    }
    stream_fence();
  };
  for_each_parallel(pieces, copy_some, bytes);
  std::vector<StorageRead> all;
  for (std::vector<StorageRead>& some : reads) {
    all.insert(all.end(), some.begin(), some.end());
    some = {};
  }
  read_storages(all);
  return memory;
}

Value Snapshotter::take(const Value& value) {
  const StorageList list(value);
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
  for (const Storage* storage : list.storages()) {
    offsets.push_back(bytes);
    if (storage != nullptr) bytes += round_up(storage->size(), kSnapshotAlignment);
  }
  const std::shared_ptr<const PageMemory> memory = take(list.storages(), offsets, bytes);
  TreeCopy::Copies copies;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Storage* storage = list.storages()[i];
    if (storage == nullptr) continue;
    const ByteView copy{memory->data() + offsets[i], storage->size()};
    copies.emplace(storage, storage_of(SharedBytes{copy, memory}, storage->location()));
  }
  return TreeCopy(copies).copy(value);
}

std::uint64_t Snapshotter::arena_bytes() const {
  const std::lock_guard lock(pool_->mutex);
  return pool_->bytes;
}

}  // namespace cairn

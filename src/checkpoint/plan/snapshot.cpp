#include "checkpoint/plan/snapshot.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/page_memory.h"
#include "io/stream_copy.h"

namespace cairn {
namespace {

constexpr std::size_t kSnapshotAlignment = 64;  // of each storage: a cache line, and torch's own
constexpr std::size_t kGranule = std::size_t{2} << 20;

std::size_t round_up(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

bool can_hold_tensors(const Value& value) {
  return value.is_tensor() || value.kind() == Kind::kSparse || value.is_list() ||
         value.is_tuple() || value.is_dict();
}

// Where the copy of each storage goes.
class Places {
 public:
  explicit Places(const Value& root) { visit(root); }

  std::size_t arena_bytes() const { return bytes_; }

  // Copies all bytes and makes the storages that stand for the copies.
  void copy_into(const std::shared_ptr<const PageMemory>& arena) {
    for (const Storage* storage : storages_) {
      Place& place = places_.at(storage);
      const SharedBytes bytes = storage->bytes();
      const ByteView from = bytes.view;
      std::byte* to = arena->data() + place.offset;
      if (!from.empty()) stream_copy(to, from.data(), from.size());
      place.copy = std::make_shared<const Storage>(SharedBytes{{to, from.size()}, arena},
                                                   storage->location());
    }
  }

  const std::shared_ptr<const Storage>& copy_of(const Storage* storage) const {
    return places_.at(storage).copy;
  }

 private:
  struct Place {
    std::size_t offset = 0;
    std::shared_ptr<const Storage> copy;
  };

  void add(const Storage* storage) {
    if (storage == nullptr || !places_.try_emplace(storage, Place{bytes_, nullptr}).second) return;
    storages_.push_back(storage);
    bytes_ += round_up(storage->size(), kSnapshotAlignment);
  }

  void add(const TensorView& tensor) {
    add(tensor.storage.get());
    if (tensor.quantizer == nullptr) return;
    add(tensor.quantizer->scales.storage.get());
    add(tensor.quantizer->zero_points.storage.get());
  }

  void visit(const Value& value) {
    if (value.identity() == nullptr) return;  // empty
    if (!can_hold_tensors(value) || !seen_.insert(value.identity()).second) return;
    if (value.is_tensor()) {
      add(value.as_tensor());
    } else if (value.kind() == Kind::kSparse) {
      for (const auto& [name, tensor] : parts_of(value.as_sparse())) {
        add(*tensor);
      }
    } else if (value.is_list() || value.is_tuple()) {
      for (const Value& item : value.as_items()) {
        visit(item);
      }
    } else if (value.is_dict()) {
      for (const auto& [key, item] : value.as_dict()) {
        visit(item);
      }
    }
  }

  std::unordered_set<const void*> seen_;  // identities
  std::vector<const Storage*> storages_;  // in tree order
  std::unordered_map<const Storage*, Place> places_;
  std::size_t bytes_ = 0;
};

// The tree again, with the copied storages.
class TreeCopy {
 public:
  explicit TreeCopy(const Places& places) : places_(places) {}

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
        dict.set(key, copy(item));
      }
      return dict;
    }
    List items;
    items.reserve(value.as_items().size());
    for (const Value& item : value.as_items()) {
      items.push_back(copy(item));
    }
    return value.is_tuple() ? Value(Tuple{std::move(items)}) : Value(std::move(items));
  }

  TensorView copy_of(TensorView tensor) const {
    if (tensor.storage != nullptr) tensor.storage = places_.copy_of(tensor.storage.get());
    if (tensor.quantizer != nullptr) {
      Quantizer quantizer = *tensor.quantizer;
      quantizer.scales = copy_of(std::move(quantizer.scales));
      quantizer.zero_points = copy_of(std::move(quantizer.zero_points));
      tensor.quantizer = std::make_shared<const Quantizer>(std::move(quantizer));
    }
    return tensor;
  }

  const Places& places_;
  std::unordered_map<const void*, Value> seen_;  // what was one object stays one
};

}  // namespace

// Arenas in use hold on to the pool, and come back to it when nothing points into them any more.
struct Snapshotter::Pool {
  std::mutex mutex;
  std::vector<PageMemory> spare;
  std::uint64_t bytes = 0;  // in use and spare

  // A spare arena of at least `size`, else a new one in place of the largest spare.
  PageMemory take(std::size_t size) {
    const std::lock_guard lock(mutex);
    const auto by_size = [](const PageMemory& a, const PageMemory& b) {
      return a.size() < b.size();
    };
    const auto largest = std::max_element(spare.begin(), spare.end(), by_size);
    PageMemory arena;
    if (largest != spare.end()) {
      arena = std::move(*largest);
      spare.erase(largest);
    }
    if (arena.size() >= size) return arena;
    bytes -= arena.size();
    { const PageMemory freed = std::move(arena); }  // before the larger one: never both at once
    arena = PageMemory(round_up(size, kGranule));
    bytes += arena.size();
    return arena;
  }

  void give_back(PageMemory arena) {
    const std::lock_guard lock(mutex);
    spare.push_back(std::move(arena));
  }
};

Snapshotter::Snapshotter() : pool_(std::make_shared<Pool>()) {}

Snapshotter::~Snapshotter() = default;

Value Snapshotter::take(const Value& value) {
  Places places(value);
  const std::shared_ptr<const PageMemory> arena(new PageMemory(pool_->take(places.arena_bytes())),
                                                [pool = pool_](PageMemory* used) {
                                                  pool->give_back(std::move(*used));
                                                  delete used;
                                                });
  places.copy_into(arena);
  return TreeCopy(places).copy(value);
}

std::uint64_t Snapshotter::arena_bytes() const {
  const std::lock_guard lock(pool_->mutex);
  return pool_->bytes;
}

}  // namespace cairn

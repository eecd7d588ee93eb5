// The storages of one file. Each is made once, when a tensor asks for its key.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/hash/seeded_hash.h"
#include "format/pickle/globals/globals.h"

namespace cairn::pickle {

class KeyedStorages : public StorageLoader {
 public:
  std::shared_ptr<const Storage> load(const StorageReference& reference) final;

 protected:
  struct Loaded {
    std::shared_ptr<const Storage> storage;
    DType dtype = DType::kUInt8;  // kUInt8 also for an untyped storage, as in PyTorch
    std::uint64_t numel = 0;
  };

  // Makes the storage of a key that no tensor asked for before. Throws CorruptError,
  // UnsupportedError.
  virtual std::shared_ptr<const Storage> make(const StorageReference& reference) = 0;

  // Returns nullptr for a key that no tensor asked for.
  const Loaded* find_loaded(std::string_view key) const;
  std::size_t loaded_count() const { return numbered_.size() + others_.size(); }

 private:
  std::pair<Loaded*, bool> try_emplace(std::string_view key);
  std::shared_ptr<const Storage> make_any(const StorageReference& reference);
  // PyTorch numbers storages in order of use: these have the keys "0", "1", "2" and so on.
  std::deque<Loaded> numbered_;
  std::unordered_map<std::string, Loaded, TextHash> others_;
};

// Returns the size of the elements of `reference`. Throws CorruptError if it overflows.
std::uint64_t byte_size(const StorageReference& reference);

// Returns how many bytes are reversed together when the byte order changes: an element, or half a
// complex one.
std::size_t swapped_size(DType dtype);
// Returns a copy of the elements in the other byte order.
SharedBytes swap_bytes(const SharedBytes& bytes, DType dtype);

}  // namespace cairn::pickle

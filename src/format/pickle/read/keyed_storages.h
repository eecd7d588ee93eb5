// The storages of one file, each made once, as its tensors ask for them by key.
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
    DType dtype = DType::kUInt8;  // also of an untyped one, which PyTorch counts so
    std::uint64_t numel = 0;
  };

  // The storage of a key that was not asked for before. CorruptError, UnsupportedError.
  virtual std::shared_ptr<const Storage> make(const StorageReference& reference) = 0;

  // nullptr for a key that was not asked for.
  const Loaded* find_loaded(std::string_view key) const;
  std::size_t loaded_count() const { return numbered_.size() + others_.size(); }

 private:
  std::pair<Loaded*, bool> try_emplace(std::string_view key);
  std::shared_ptr<const Storage> make_any(const StorageReference& reference);
  // PyTorch numbers its storages as they come: those of the keys "0", "1", "2" and so on.
  std::deque<Loaded> numbered_;
  std::unordered_map<std::string, Loaded, TextHash> others_;
};

// What the elements of `reference` take. CorruptError when that overflows.
std::uint64_t byte_size(const StorageReference& reference);

// Bytes that are turned round together when their order changes: an element, or half a complex one.
std::size_t swapped_size(DType dtype);
// The elements' bytes in the other order, a copy.
SharedBytes swapped(const SharedBytes& bytes, DType dtype);

}  // namespace cairn::pickle

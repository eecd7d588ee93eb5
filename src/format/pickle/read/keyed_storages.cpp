#include "format/pickle/read/keyed_storages.h"

#include <algorithm>
#include <vector>

#include "cairn/error.h"

#include "core/checked.h"

namespace cairn::pickle {

namespace {

// Returns the number that the text spells; nullopt for every other text.
std::optional<std::size_t> number_of(std::string_view key) {
  constexpr std::size_t kMaxDigits = 9;
  if (key.empty() || key.size() > kMaxDigits || (key.size() > 1 && key[0] == '0')) {
    return std::nullopt;
  }
  std::size_t number = 0;
  for (const char c : key) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + static_cast<std::size_t>(c - '0');
  }
  return number;
}

}  // namespace

const KeyedStorages::Loaded* KeyedStorages::find_loaded(std::string_view key) const {
  const auto number = number_of(key);
  if (number && *number < numbered_.size()) return &numbered_[*number];
  const auto found = others_.find(std::string(key));
  return found == others_.end() ? nullptr : &found->second;
}

// Returns the entry of the key, and whether it is new and therefore empty.
std::pair<KeyedStorages::Loaded*, bool> KeyedStorages::try_emplace(std::string_view key) {
  const auto number = number_of(key);
  if (number && *number < numbered_.size()) return {&numbered_[*number], false};
  // After one key came out of turn, all new keys go to the table others_, so that no key is in both
  // tables.
  if (number && *number == numbered_.size() && others_.empty()) {
    return {&numbered_.emplace_back(), true};
  }
  const auto [entry, is_new] = others_.try_emplace(std::string(key));
  return {&entry->second, is_new};
}

std::shared_ptr<const Storage> KeyedStorages::make_any(const StorageReference& reference) {
  if (reference.location == "meta") {
    throw UnsupportedError("storage " + std::string(reference.key) +
                           " belongs to a meta tensor, which has no data");
  }
  return make(reference);
}

std::shared_ptr<const Storage> KeyedStorages::load(const StorageReference& reference) {
  const DType dtype = reference.dtype.value_or(DType::kUInt8);
  const auto [loaded, is_new] = try_emplace(reference.key);
  if (is_new) {
    try {
      *loaded = {make_any(reference), dtype, reference.numel};
    } catch (...) {  // a later request for this key tries again
      if (others_.empty()) {
        numbered_.pop_back();
      } else {
        others_.erase(std::string(reference.key));
      }
      throw;
    }
  }
  const bool is_same = loaded->dtype == dtype && loaded->numel == reference.numel;
  const bool is_empty = loaded->numel == 0 && reference.numel == 0;
  // In PyTorch, empty views of one storage may have different types, and share nothing.
  if (!is_same && is_empty) return storage_of(SharedBytes(), std::string(reference.location));
  if (!is_same) {
    throw CorruptError("storage " + std::string(reference.key) + " has two dtypes or two lengths");
  }
  return loaded->storage;
}

std::uint64_t byte_size(const StorageReference& reference) {
  return checked_multiply<std::uint64_t>(reference.numel,
                                         reference.dtype ? item_size(*reference.dtype) : 1);
}

std::size_t swapped_size(DType dtype) {
  const bool is_complex = name(dtype).starts_with("complex");
  return is_complex ? item_size(dtype) / 2 : item_size(dtype);
}

SharedBytes swap_bytes(const SharedBytes& bytes, DType dtype) {
  const std::size_t part = swapped_size(dtype);
  if (part == 1) return bytes;
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.view.begin(), bytes.view.end());
  for (auto at = copy->begin(); at + static_cast<std::ptrdiff_t>(part) <= copy->end();
       at += static_cast<std::ptrdiff_t>(part)) {
    std::reverse(at, at + static_cast<std::ptrdiff_t>(part));
  }
  return {ByteView(*copy), copy};
}

}  // namespace cairn::pickle

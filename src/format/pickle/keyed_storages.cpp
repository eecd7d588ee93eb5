#include "format/pickle/keyed_storages.h"

#include <algorithm>
#include <vector>

#include "cairn/error.h"

#include "core/checked.h"

namespace cairn::pickle {

std::shared_ptr<const Storage> KeyedStorages::load(const StorageReference& reference) {
  const auto [entry, is_new] = loaded_.try_emplace(std::string(reference.key));
  Loaded& loaded = entry->second;
  if (is_new) {
    if (reference.location == "meta") {
      throw UnsupportedError("storage " + entry->first + " is of a meta tensor: no data");
    }
    loaded = {make(reference), reference.dtype, reference.numel};
  }
  if (loaded.dtype != reference.dtype || loaded.numel != reference.numel) {
    throw CorruptError("storage " + entry->first + " is given two dtypes or two lengths");
  }
  return loaded.storage;
}

void KeyedStorages::account_copy(std::uint64_t bytes) {
  copied_ = checked_add(copied_, bytes);
  if (copied_ / 4 > file_size_) {
    throw CorruptError("the file asks for copies of its storages again and again");
  }
}

std::uint64_t byte_size(const StorageReference& reference) {
  return checked_multiply<std::uint64_t>(reference.numel,
                                         reference.dtype ? item_size(*reference.dtype) : 1);
}

SharedBytes swapped(const SharedBytes& bytes, DType dtype) {
  const bool is_complex = name(dtype).starts_with("complex");
  const std::size_t part = is_complex ? item_size(dtype) / 2 : item_size(dtype);
  if (part == 1) return bytes;
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.view.begin(), bytes.view.end());
  for (auto at = copy->begin(); at + static_cast<std::ptrdiff_t>(part) <= copy->end();
       at += static_cast<std::ptrdiff_t>(part)) {
    std::reverse(at, at + static_cast<std::ptrdiff_t>(part));
  }
  return {ByteView(*copy), copy};
}

}  // namespace cairn::pickle

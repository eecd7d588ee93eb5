// Five pickles and raw data, one after the other:
//
//  1. the magic number
//  2. 1001, the version of this layout
//  3. a dict about the machine that wrote it, which nobody needs
//  4. the object; its storages are persistent ids
//  5. the list of the storages' keys
//  6. for each key: how many elements, as an int64, and the elements, little-endian
//
// Where a storage lies is known only when all before it have been stepped over, and how long it is
// only from pickle 4. So the storages that pickle 4 is given look their place up later.
#include "format/legacy/legacy_file.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/byte_reader.h"
#include "core/checked.h"
#include "core/seeded_hash.h"
#include "format/pickle/keyed_storages.h"
#include "format/pickle/pickle_size.h"
#include "format/pickle/unpickle.h"

namespace cairn {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;
constexpr std::size_t kMagicAtMost = 16;  // bytes before it: PROTO, FRAME, LONG1
constexpr std::int64_t kVersion = 1001;

// Where the storages lie; filled when the object has been read.
struct LegacyPlaces {
  SharedBytes file;
  std::unordered_map<std::string, std::uint64_t, TextHash> offsets;
};

class LegacyStorages final : public pickle::KeyedStorages {
 public:
  explicit LegacyStorages(const SharedBytes& file)
      : KeyedStorages(file.view.size()),
        places_(std::make_shared<LegacyPlaces>(LegacyPlaces{file, {}})) {}

  // Steps over the storages of `keys` from `at` on; returns where they end.
  std::uint64_t place(const List& keys, std::uint64_t at) {
    for (const Value& key : keys) {
      if (!key.is_str()) throw CorruptError("a storage key is a " + std::string(key.type_name()));
      const auto known = loaded().find(key.as_str());
      if (known == loaded().end()) {
        throw CorruptError("storage " + key.as_str() + " is of no tensor", {}, at);
      }
      ByteReader in(places_->file.view.subspan(at), "a storage", at);
      const std::uint64_t numel = in.u64();
      if (numel != known->second.numel) {
        throw CorruptError("storage " + key.as_str() + " has " + std::to_string(numel) +
                               " elements, its tensors need " + std::to_string(known->second.numel),
                           {}, at);
      }
      in.take(known->second.storage->size());
      if (!places_->offsets.emplace(key.as_str(), at + sizeof(numel)).second) {
        throw CorruptError("storage " + key.as_str() + " is there twice", {}, at);
      }
      at += in.position();
    }
    if (places_->offsets.size() != loaded().size()) {
      throw CorruptError("a storage of a tensor is missing", {}, at);
    }
    return at;
  }

 private:
  std::shared_ptr<const Storage> make(const pickle::StorageReference& reference) override {
    const std::uint64_t size = byte_size(reference);
    if (size > places_->file.view.size()) {
      throw CorruptError("storage " + std::string(reference.key) + " is larger than the file");
    }
    return std::make_shared<const Storage>(
        size,
        [places = places_, key = std::string(reference.key), size] {
          return places->file.part(places->offsets.at(key), size);
        },
        std::string(reference.location));
  }

  std::shared_ptr<LegacyPlaces> places_;
};

class Reader {
 public:
  Reader(const SharedBytes& bytes, std::uint64_t at)
      : bytes_(bytes), storages_(bytes), budget_(bytes.view.size() - at), at_(at) {}

  LegacyObject read() {
    const Value magic = next_pickle();
    const auto* number = magic.get_if<BigInt>();
    if (number == nullptr || number->twos_complement != kMagic) {
      throw CorruptError("it does not begin with the magic number");
    }
    const Value version = next_pickle();
    if (version.kind() != Kind::kInt || version.as_int() != kVersion) {
      throw CorruptError("its version is not " + std::to_string(kVersion));
    }
    next_pickle();
    Value object = next_pickle();
    const Value keys = next_pickle();
    if (!keys.is_list()) throw CorruptError("its list of storages is no list");
    return {std::move(object), storages_.place(keys.as_items(), at_)};
  }

  std::uint64_t at() const { return at_; }

 private:
  Value next_pickle() {
    const ByteView rest = bytes_.view.subspan(at_);
    const ByteView pickle = rest.first(pickle::pickle_size(rest));
    Value value;
    try {
      value = pickle::unpickle(pickle, storages_, budget_);
    } catch (const CorruptError& e) {
      throw CorruptError(e.what(), {},
                         e.offset() == CorruptError::kNoOffset ? at_ : at_ + e.offset());
    }
    at_ += pickle.size();
    return value;
  }

  const SharedBytes& bytes_;
  LegacyStorages storages_;
  MemoryBudget budget_;
  std::uint64_t at_;
};

}  // namespace

bool is_legacy_file(ByteView bytes) {
  const std::string_view start = as_text(bytes).substr(0, kMagicAtMost + kMagic.size());
  return start.starts_with('\x80') && start.find(kMagic) != std::string_view::npos;
}

LegacyObject read_legacy_object(const SharedBytes& bytes, const std::string& file,
                                std::uint64_t begin) {
  Reader reader(bytes, begin);
  try {
    return reader.read();
  } catch (const CorruptError& e) {
    const bool has_offset = e.offset() != CorruptError::kNoOffset;
    throw CorruptError(file + ": " + e.what(), file, has_offset ? e.offset() : reader.at());
  } catch (Error& e) {
    e.add_context(file);
    throw;
  }
}

}  // namespace cairn

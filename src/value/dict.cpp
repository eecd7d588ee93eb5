// A hash table of entry numbers (open addressing, linear probing) beside the entries in order.
// Unused bits of a slot hold a part of the key's hash. So other keys, which are spread over memory,
// are rarely read.
#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "cairn/error.h"
#include "cairn/value.h"

#include "core/hash/seeded_hash.h"
#include "value/value_compare.h"

namespace cairn {
namespace {

constexpr std::size_t kScanLimit = 8;  // smaller dicts are searched front to back
constexpr std::uint32_t kEmptySlot = 0;
constexpr std::size_t kMaxEntries = std::size_t{1} << 30;

// At most half of the slots are used.
std::size_t slots_for(std::size_t entries) {
  return entries <= kScanLimit ? 0 : std::bit_ceil(entries * 2);
}

// The content of a slot, if there are 2^bits slots. The lower bits are the number of the entry plus
// one, which is at most half of 2^bits. The upper bits are from the hash.
class SlotFormat {
 public:
  explicit SlotFormat(std::size_t slots) : bits_(std::countr_zero(slots)) {}

  std::uint32_t of_entry(std::size_t entry, std::size_t hash) const {
    return of_hash(hash) | static_cast<std::uint32_t>(entry + 1);
  }
  bool may_be(std::uint32_t slot, std::size_t hash) const {
    return (slot ^ of_hash(hash)) >> bits_ == 0;
  }
  std::size_t entry(std::uint32_t slot) const {
    return (slot & ((std::uint32_t{1} << bits_) - 1)) - 1;
  }

 private:
  // The lower half of the hash says where to look first.
  std::uint32_t of_hash(std::size_t hash) const {
    return static_cast<std::uint32_t>(std::uint64_t{hash} >> 32) << bits_;
  }

  int bits_;
};

void take_slot(std::vector<std::uint32_t>& slots, std::size_t hash, std::size_t entry) {
  const std::size_t mask = slots.size() - 1;
  std::size_t i = hash & mask;
  while (slots[i] != kEmptySlot) {
    i = (i + 1) & mask;
  }
  slots[i] = SlotFormat(slots.size()).of_entry(entry, hash);
}

[[noreturn]] void refuse_size() {
  throw UsageError("a dict cannot have more than " + std::to_string(kMaxEntries) + " entries");
}

}  // namespace

Dict::Dict(std::initializer_list<Entry> entries, bool ordered)
    : type_(ordered ? DictType::kOrderedDict : DictType::kDict) {
  for (const auto& [key, value] : entries) {
    set(key, value);
  }
}

Dict Dict::empty_like() const {
  Dict dict(type_);
  dict.extras_ = extras_;
  return dict;
}

const Value& Dict::attributes() const { return extras_->attributes; }

const Value& Dict::default_factory() const { return extras_->default_factory; }

void Dict::set_attributes(Value attributes) { extras_.own().attributes = std::move(attributes); }

void Dict::set_default_factory(Value factory) {
  extras_.own().default_factory = std::move(factory);
}

template <class IsKey>
const Value* Dict::find_if(std::size_t hash, IsKey is_key) const {
  if (slots_.empty()) {
    const auto it = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return is_key(e.first); });
    return it == entries_.end() ? nullptr : &it->second;
  }
  const std::size_t mask = slots_.size() - 1;
  const SlotFormat format(slots_.size());
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    if (slots_[i] == kEmptySlot) return nullptr;
    if (!format.may_be(slots_[i], hash)) continue;
    const Entry& entry = entries_[format.entry(slots_[i])];
    if (is_key(entry.first)) return &entry.second;
  }
}

const Value* Dict::find(const Value& key) const {
  const std::size_t hash = slots_.empty() ? 0 : hash_value(key);
  return find_if(hash, [&](const Value& other) { return equal_keys(other, key); });
}

Value* Dict::find(const Value& key) {
  return const_cast<Value*>(std::as_const(*this).find(key));  // NOLINT
}

const Value* Dict::find_text(std::string_view key) const {
  return find_if(TextHash()(key), [&](const Value& other) {
    const auto* text = other.get_if<std::string>();
    return text != nullptr && *text == key;
  });
}

const Value& Dict::at(std::string_view key) const {
  if (const Value* value = find_text(key)) return *value;
  std::string there;
  for (const auto& [k, v] : entries_) {
    if (there.size() > 200) {
      there += ", ...";
      break;
    }
    there += (there.empty() ? "" : ", ") + (k.is_str() ? k.as_str() : std::string(k.type_name()));
  }
  throw NotFoundError("no key \"" + std::string(key) +
                      "\"; there are: " + (there.empty() ? "none" : there));
}

void Dict::set(Value key, Value value) {
  const std::size_t hash = hash_value(key);  // throws for unhashable keys in small dicts, too
  const Value* existing = find_if(hash, [&](const Value& other) { return equal_keys(other, key); });
  if (existing != nullptr) {
    *const_cast<Value*>(existing) = std::move(value);  // NOLINT
    return;
  }
  append(std::move(key), std::move(value), hash);
}

void Dict::append(Value key, Value value, std::size_t hash) {
  if (entries_.size() == kMaxEntries) refuse_size();
  entries_.emplace_back(std::move(key), std::move(value));
  if (slots_.empty() && entries_.size() <= kScanLimit) return;
  if (entries_.size() * 2 > slots_.size()) {
    index_all(slots_for(std::min(entries_.size() * 2, kMaxEntries)));
  } else if (!is_nan(entries_.back().first)) {
    take_slot(slots_, hash, entries_.size() - 1);
  }
}

void Dict::reserve(std::size_t entries) {
  if (entries > kMaxEntries) refuse_size();
  entries_.reserve(entries);
  if (const std::size_t slots = slots_for(entries); slots > slots_.size()) index_all(slots);
}

// A NaN equals no key, so it can never be found and takes no slot.
void Dict::index_all(std::size_t slots) {
  slots_.assign(slots, kEmptySlot);
  if (slots == 0) return;
  for (std::size_t n = 0; n < entries_.size(); ++n) {
    const Value& key = entries_[n].first;
    if (!is_nan(key)) take_slot(slots_, hash_value(key), n);
  }
}

Value& Dict::operator[](std::string_view key) {
  if (const Value* existing = find_text(key)) return *const_cast<Value*>(existing);  // NOLINT
  append(key, None{}, TextHash()(key));
  return entries_.back().second;
}

bool Dict::erase(const Value& key) {
  const Value* found = find(key);
  if (found == nullptr) return false;
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return &e.second == found; });
  entries_.erase(it);
  index_all(slots_for(entries_.size()));
  return true;
}

}  // namespace cairn

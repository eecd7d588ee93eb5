// Entries of a dict by names that come in about the order of the dict.
#pragma once

#include <cstddef>
#include <string>

#include "cairn/value.h"

namespace cairn {

// The names of a module's tensors, most often, which a file has in the same order: each is looked
// for behind the one before, which takes no hash, and what comes later is brought into the cache
// meanwhile.
class NamesInOrder {
 public:
  // `dict` must outlive it, and stay as it is.
  explicit NamesInOrder(const Value& dict) : dict_(dict), entries_(dict.as_dict()) {}

  // As Value::find().
  const Value* find(const std::string& name) {
    if (const Value* const next = at_next(name)) return next;
    const Value* const found = dict_.find(name);
    if (found == nullptr) return nullptr;
    const auto* const first = reinterpret_cast<const char*>(&entries_.begin()->second);
    next_ = (reinterpret_cast<const char*>(found) - first) / sizeof(Dict::Entry) + 1;
    return found;
  }

 private:
  const Value* at_next(const std::string& name) {
    constexpr std::size_t kAhead = 8;
    if (next_ == entries_.size()) return nullptr;
    const auto entry = entries_.begin() + static_cast<std::ptrdiff_t>(next_);
    if (entries_.size() - next_ > kAhead) {
      __builtin_prefetch(entry[kAhead].first.identity());
      __builtin_prefetch(entry[kAhead].second.identity());
    }
    const auto* const text = entry->first.get_if<std::string>();
    if (text == nullptr || *text != name) return nullptr;
    ++next_;
    return &entry->second;
  }

  const Value& dict_;
  const Dict& entries_;
  std::size_t next_ = 0;  // behind the last that was found
};

}  // namespace cairn

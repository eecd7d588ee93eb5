// Turns a Value into data.pkl and the storages beside it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn::pickle {

struct Encoded {
  std::string data_pkl;
  // So many bytes more have place for every object of the same structure: for numbers of any size
  // in place of its numbers, and for slightly longer texts and bytes. data_pkl.size() + room is the
  // same for all of them.
  std::size_t room = 0;
  std::vector<std::shared_ptr<const Storage>> storages;  // the i-th is the record data/i
};

// Protocol 2, as CPython would write it. What has one identity() is written once. UnsupportedError,
// with the keys that lead there, for a Value that torch.load could not read back; UsageError for a
// tensor that reaches outside its storage.
Encoded encode(const Value& value);

// What encode() knows of the tree before: its first large parts that others hold on to, a dict of
// tensors and one of dicts of tensors, as far as no tensor stands before or between them; and how
// far the pickle was behind each. A tree that is the same up to there, and has those parts, that is
// ones of the same identity(), is only encoded from there on. Keeps the memory of those tensors,
// and what was written up to each of them.
// May be used by several threads: one after the other.
class EncodeMemory {
 public:
  EncodeMemory();
  ~EncodeMemory();
  EncodeMemory(const EncodeMemory&) = delete;
  EncodeMemory& operator=(const EncodeMemory&) = delete;

  void forget();

  struct Part;

 private:
  friend Encoded encode(const Value& value, EncodeMemory& memory);
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Part>> parts_;
};

// The same bytes as encode(value).
Encoded encode(const Value& value, EncodeMemory& memory);

}  // namespace cairn::pickle

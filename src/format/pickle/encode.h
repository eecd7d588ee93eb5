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

// What encode() knows of the tree before: its first large part that others hold on to, and how far
// the pickle was behind it. A tree that is the same up to there, and has that part, that is one of
// the same identity(), is only encoded from there on. Keeps the memory of those tensors.
// May be used by several threads: one after the other.
class EncodeMemory {
 public:
  EncodeMemory();
  ~EncodeMemory();
  EncodeMemory(const EncodeMemory&) = delete;
  EncodeMemory& operator=(const EncodeMemory&) = delete;

  void forget();

 private:
  friend Encoded encode(const Value& value, EncodeMemory& memory);
  struct Part;
  std::mutex mutex_;
  std::unique_ptr<const Part> part_;
};

// The same bytes as encode(value).
Encoded encode(const Value& value, EncodeMemory& memory);

}  // namespace cairn::pickle

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
  // How many more bytes data.pkl needs room for, so that any object of the same structure fits.
  // This room allows for numbers of any size in place of those of the object, and for slightly
  // longer texts and bytes. data_pkl.size() + room is the same for all such objects.
  std::size_t room = 0;
  std::vector<std::shared_ptr<const Storage>> storages;  // [i] is the record data/i
};

// Writes protocol 2, as CPython would. Objects with the same identity() are written once. Throws
// UnsupportedError for a Value that torch.load could not read, and UsageError for a tensor that
// reaches outside its storage. The messages name the keys that lead there.
Encoded encode(const Value& value);

// Remembers the previous tree, so that encode() need not encode an equal beginning again. It keeps
// up to two large parts that other code holds, too: a dict of tensors, and a dict of dicts of
// tensors. No tensor may lie before or between these parts. It also keeps the state of the pickle
// after each part. If the next tree has the same parts (by identity()) and is equal before them,
// encoding continues after these parts. Keeps the memory of the parts' tensors, and a copy of what
// was written. Thread-safe: calls run one after another.
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

// Returns the same as encode(value), using `memory`.
Encoded encode(const Value& value, EncodeMemory& memory);

}  // namespace cairn::pickle

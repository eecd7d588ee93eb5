// Turns a Value into data.pkl and the storages beside it.
#pragma once

#include <memory>
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

}  // namespace cairn::pickle

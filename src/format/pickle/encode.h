// Turns a Value into data.pkl and the storages beside it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn::pickle {

struct Encoded {
  std::string data_pkl;
  std::vector<std::shared_ptr<const Storage>> storages;  // the i-th is the record data/i
};

// Protocol 2, as CPython would write it. What has one identity() is written once. UnsupportedError,
// with the keys that lead there, for a Value that torch.load could not read back; UsageError for a
// tensor that reaches outside its storage.
Encoded encode(const Value& value);

}  // namespace cairn::pickle

// A Value as bytes, for comparing it with another.
#pragma once

#include <string>

#include "cairn/value.h"

#include "format/pickle/write/encode.h"

namespace cairn {

// The bytes of its pickle and of its tensors' records.
inline std::string bytes_of(const Value& value) {
  const pickle::Encoded encoded = pickle::encode(value);
  std::string text = encoded.data_pkl;
  for (const auto& storage : encoded.storages) {
    text += '|';
    text += as_text(storage->bytes().view);
  }
  return text;
}

}  // namespace cairn

// A Value as bytes, to compare it with another Value.
#pragma once

#include <string>

#include "cairn/value.h"

#include "format/pickle/write/encode.h"

namespace cairn {

// The bytes of the pickle of `value` and of the records of its tensors.
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

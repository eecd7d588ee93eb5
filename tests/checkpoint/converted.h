// Inputs and results of conversions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cairn/tensor.h"
#include "cairn/value.h"

#include "checkpoint/open/source.h"
#include "testing/string_sink.h"

namespace cairn::testing {

inline Value read(const std::string& path) { return open_source(path)->read(); }

inline TensorView floats(const std::vector<float>& numbers) {
  return make_tensor(DType::kFloat32, {static_cast<std::int64_t>(numbers.size())},
                     shared(std::string(as_text(std::as_bytes(std::span(numbers))))));
}

inline std::vector<std::string> keys_of(const Value& dict) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict.as_dict()) {
    keys.push_back(key.as_str());
  }
  return keys;
}

}  // namespace cairn::testing

// safetensors files written by hand.
#pragma once

#include <string>

#include "core/little_endian.h"

namespace cairn::testing {

inline std::string safetensors_file(const std::string& header, const std::string& data = "") {
  std::string file;
  append_little_endian<std::uint64_t>(file, header.size());
  return file + header + data;
}

// One member of the header, such as safetensors_entry("w", "F32", "[2]", "[0,8]").
inline std::string safetensors_entry(const std::string& name, const std::string& dtype,
                                     const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

}  // namespace cairn::testing

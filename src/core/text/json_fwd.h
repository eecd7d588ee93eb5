// Declares the types of core/text/json.h, for headers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace cairn {

template <class T>
struct JsonAllocator;

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t,
                                  std::uint64_t, double, JsonAllocator>;
// As Json, but objects keep their members in the order of insertion.
using OrderedJson = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool,
                                         std::int64_t, std::uint64_t, double, JsonAllocator>;

}  // namespace cairn

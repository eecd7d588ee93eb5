#include "core/json_text.h"

#include <nlohmann/json.hpp>

#include "core/printable.h"

namespace cairn {
namespace {

template <class Json>
std::string dumped(const Json& value, int indent) {
  return printable_json(value.dump(indent, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string json_text(const nlohmann::json& value, int indent) { return dumped(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return dumped(value, indent);
}

}  // namespace cairn

#include "core/text/json_text.h"

#include "core/text/json.h"
#include "core/text/printable.h"

namespace cairn {
namespace {

template <class Tree>
std::string dumped(const Tree& value, int indent) {
  return printable_json(value.dump(indent, ' ', false, Tree::error_handler_t::replace));
}

}  // namespace

std::string json_text(const Json& value, int indent) { return dumped(value, indent); }
std::string json_text(const OrderedJson& value, int indent) { return dumped(value, indent); }

}  // namespace cairn

#include "format/dcp/metadata/nesting.h"

#include "cairn/error.h"

namespace cairn::dcp {
namespace {

bool is_index(const PathPart& part) { return std::holds_alternative<std::int64_t>(part); }

[[noreturn]] void fail(const Item& item, const char* what) {
  throw CorruptError("the metadata puts \"" + std::string(item.fqn.substr(0, 200)) + "\" " + what);
}

}  // namespace

void Nesting::spend(std::uint64_t amount) {
  if (amount > budget_) {
    throw CorruptError("the metadata describes a tree out of proportion to its size");
  }
  budget_ -= amount;
}

// Returns the child that `part` names. A new child is None.
Value& Nesting::enter(Value& container, const PathPart& part) {
  if (!is_index(part)) {
    const std::string_view key = std::get<std::string_view>(part);
    const Dict& dict = container.as_dict();
    if (dict.find(Value(key)) == nullptr) spend(sizeof(Dict::Entry) + key.size());
    return container.mutable_dict()[key];
  }
  const auto index = static_cast<std::uint64_t>(std::get<std::int64_t>(part));
  List& list = container.mutable_list();
  if (index >= list.size()) {
    if (index > budget_) spend(index);  // throws
    spend((index + 1 - list.size()) * sizeof(Value));
    list.resize(index + 1);
  }
  return list[index];
}

void Nesting::set(const Item& item, Value value) {
  if (item.path.empty()) {
    enter(root_, item.fqn) = std::move(value);
    return;
  }
  Value* at = &root_;
  for (const PathPart& part : item.path) {
    if (at->is_none()) *at = is_index(part) ? Value(List()) : Value(Dict());
    if (is_index(part) ? !at->is_list() : !at->is_dict()) fail(item, "below another item");
    at = &enter(*at, part);
  }
  if (!at->is_none()) fail(item, "at the place of another item");
  *at = std::move(value);
}

}  // namespace cairn::dcp

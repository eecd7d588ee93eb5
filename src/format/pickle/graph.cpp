#include "format/pickle/graph.h"

#include <array>

#include "cairn/error.h"

#include "format/pickle/globals.h"

namespace cairn::pickle {

std::uint64_t owned_bytes(const Value& value) {
  if (value.kind() == Kind::kBytes) return value.as_bytes().data.size();
  if (const auto* v = value.get_if<BigInt>()) return v->twos_complement.size();
  if (const auto* v = value.get_if<Size>()) return v->dims.size() * sizeof(std::int64_t);
  if (const auto* v = value.get_if<Device>()) return v->name.size();
  return 0;
}

namespace {

std::uint64_t described_bytes(const TensorView& tensor) {
  return tensor.shape.size() * 2 * sizeof(std::int64_t);
}

std::uint64_t described_bytes(const Value& value) {
  if (value.is_tensor()) return described_bytes(value.as_tensor());
  if (value.kind() == Kind::kNdArray) return value.as_ndarray().bytes.view.size();
  if (value.kind() != Kind::kSparse) return owned_bytes(value);
  std::uint64_t bytes = value.as_sparse().shape.size() * sizeof(std::int64_t);
  for (const auto& [name, part] : parts_of(value.as_sparse())) {
    bytes += described_bytes(*part);
  }
  return bytes;
}

std::uint64_t bytes_of(const Node& node) {
  if (const auto* container = std::get_if<Container>(&node)) {
    return container->items.size() * sizeof(Ref);
  }
  if (const auto* object = std::get_if<Object>(&node)) return object->args.size() * sizeof(Ref);
  if (const auto* value = std::get_if<Value>(&node)) return described_bytes(*value);
  return 0;
}

}  // namespace

void Graph::charge(std::uint64_t bytes) {
  if (bytes > budget_) {
    throw CorruptError("the pickle repeats itself until it is out of proportion to its size");
  }
  budget_ -= bytes;
}

void Graph::replace(NodeId id, Node new_node) {
  charge(bytes_of(new_node));
  node(id) = std::move(new_node);
}

DictExtras& Graph::extras(NodeId id) {
  const auto [entry, is_new] = extras_.try_emplace(static_cast<std::uint32_t>(id));
  if (is_new) charge(2 * sizeof(DictExtras));
  return entry->second;
}

const DictExtras* Graph::find_extras(NodeId id) const {
  const auto found = extras_.find(static_cast<std::uint32_t>(id));
  return found == extras_.end() ? nullptr : &found->second;
}

Ref Graph::add(Node node) {
  charge(bytes_of(node));
  if (nodes_.size() > 0xFFFFFFFE) throw CorruptError("the pickle holds too many objects");
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

std::string_view Graph::keep(std::string text) {
  charge(text.size());
  return texts_.emplace_back(std::move(text));
}

std::string Graph::describe(const Ref& ref) const {
  if (std::holds_alternative<None>(ref)) return "None";
  if (std::holds_alternative<bool>(ref)) return "a bool";
  if (const auto* i = std::get_if<std::int64_t>(&ref)) return "the number " + std::to_string(*i);
  if (std::holds_alternative<double>(ref)) return "a float";
  if (const auto* container = find<Container>(ref)) {
    constexpr std::array kNames = {
        "a list",          "a tuple",
        "a set",           "a frozenset",
        "a dict",          "an OrderedDict",
        "a script object", "a Counter",
        "a defaultdict",   "an object of a class that cairn does not know"};
    return kNames[static_cast<std::size_t>(container->kind)];
  }
  if (const auto* name = find<ForeignName>(ref)) {
    return std::string(name->module.substr(0, 200)) + "." + std::string(name->name.substr(0, 200));
  }
  if (const auto* global = find<const Global*>(ref)) {
    return std::string((*global)->module) + "." + std::string((*global)->name);
  }
  if (const auto* object = find<Object>(ref)) {
    return "an object of " + std::string(object->type->module) + "." +
           std::string(object->type->name);
  }
  if (const auto* value = find<Value>(ref)) {
    if (value->get_if<BigInt>() != nullptr) return "an int beyond 64 bits";
    return "a " + std::string(value->type_name());
  }
  if (find<Text>(ref) != nullptr) return "a str";
  if (find<StorageClass>(ref) != nullptr) return "a storage class";
  if (find<StorageReference>(ref) != nullptr) return "a bare storage";
  return "an unfinished numpy object";
}

}  // namespace cairn::pickle

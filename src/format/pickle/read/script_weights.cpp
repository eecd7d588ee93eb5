#include "format/pickle/read/script_weights.h"

#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cairn/error.h"

#include "format/pickle/globals/foreign_objects.h"
#include "format/pickle/read/graph_to_value.h"
#include "format/pickle/read/machine.h"

namespace cairn::pickle {
namespace {

// Leaves out the row for the module __torch__: objects of its classes are then foreign objects,
// which keep the name of their class.
std::vector<Global> rows_without_classes() {
  std::vector<Global> rows;
  for (const Global& row : script_globals()) {
    if (row.name != "*") rows.push_back(row);
  }
  return rows;
}

// Replaces objects of TorchScript's classes by dicts of their entries in state_dict(). Each object
// is replaced once, however many references it has.
class Weights {
 public:
  Weights(Graph& graph, const ScriptClasses& classes) : graph_(graph), classes_(classes) {}

  void convert_tree(const Ref& root) {
    if (!is_module(root)) {
      throw UnsupportedError("the archive holds " + graph_.describe(root) +
                             ", which is not a module");
    }
    found_.push_back(root);
    while (!found_.empty()) {
      const Ref module = found_.back();
      found_.pop_back();
      if (is_object(module)) convert(*module.node());
    }
  }

 private:
  const ForeignName* class_of(const Ref& ref) const {
    const auto* object = graph_.find<Container>(ref);
    if (object == nullptr || object->kind != Container::Kind::kForeign) return nullptr;
    const auto* name = graph_.find<ForeignName>(object->items[kForeignFunction]);
    if (name == nullptr) return nullptr;
    const bool is_ours = name->module == "__torch__" || name->module.starts_with("__torch__.");
    return is_ours ? name : nullptr;
  }

  bool is_object(const Ref& ref) const { return class_of(ref) != nullptr; }

  // Looks each class up once: its name may be long, and its objects many.
  const ScriptClass* definition_of(const Ref& ref) {
    const ForeignName* name = class_of(ref);
    if (name == nullptr) return nullptr;
    const NodeId id = *graph_.find<Container>(ref)->items[kForeignFunction].node();
    if (const auto known = known_.find(id); known != known_.end()) return known->second;
    graph_.budget().take(2 * MemoryBudget::allocation(sizeof(NodeId) + 3 * sizeof(void*)));
    const auto found = classes_.find(std::string(name->module) + "." + std::string(name->name));
    return known_[id] = found != classes_.end() ? &found->second : nullptr;
  }

  bool is_module(const Ref& ref) {
    if (!is_object(ref)) return is_converted(ref);
    const ScriptClass* type = definition_of(ref);
    return type == nullptr || type->is_module;
  }

  // Returns whether `ref` was a module and is a dict by now.
  bool is_converted(const Ref& ref) const {
    const auto* dict = graph_.find<Container>(ref);
    return dict != nullptr && dict->kind == Container::Kind::kScriptObject;
  }

  bool is_tensor(const Ref& ref) const {
    const auto* value = graph_.find<Value>(ref);
    return value != nullptr && (value->is_tensor() || value->kind() == Kind::kSparse);
  }

  // Returns the role of a tensor with this name in the class; nullopt for a plain attribute.
  std::optional<ScriptRole> role_of(const ScriptClass* type, const Ref& key) {
    if (type == nullptr) return ScriptRole::kParameter;
    const auto* name = graph_.find<Text>(key);
    if (name == nullptr) return std::nullopt;
    graph_.charge(name->text.size() / sizeof(Ref));  // one text may be the key of many attributes
    const auto found = type->roles.find(std::string(name->text));
    if (found != type->roles.end()) return found->second;
    if (type->lists_buffers) return std::nullopt;
    return ScriptRole::kBuffer;
  }

  void convert(NodeId id) {
    const ScriptClass* type = definition_of(id);
    auto& of_object = std::get<Container>(graph_.node(id)).items;
    const Ref state = of_object.size() > kForeignState ? of_object[kForeignState] : Ref();
    of_object.clear(graph_.refs());
    graph_.replace(id, Container{.kind = Container::Kind::kScriptObject});  // it may contain itself
    Refs parameters;
    Refs buffers;
    Refs modules;
    const auto* attributes = graph_.find<Container>(state);
    // Any other state is the result of a __getstate__(), whose attributes are not known.
    const std::size_t count =
        attributes != nullptr && attributes->is_dict() ? attributes->items.size() : 0;
    graph_.charge(count);
    for (std::size_t i = 0; i + 1 < count; i += 2) {
      const std::array entry = {attributes->items[i], attributes->items[i + 1]};
      if (is_tensor(entry[1])) {
        const auto role = role_of(type, entry[0]);
        if (role == ScriptRole::kParameter) parameters.append(entry, graph_.refs());
        if (role == ScriptRole::kBuffer) buffers.append(entry, graph_.refs());
      } else if (is_module(entry[1])) {
        modules.append(entry, graph_.refs());
        found_.push_back(entry[1]);
      }
    }
    for (Refs* more : {&buffers, &modules}) {
      parameters.append(*more, graph_.refs());
      more->clear(graph_.refs());
    }
    std::get<Container>(graph_.node(id)).items = std::move(parameters);
  }

  Graph& graph_;
  const ScriptClasses& classes_;
  std::unordered_map<NodeId, const ScriptClass*> known_;  // by the node that names the class
  std::vector<Ref> found_;
};

}  // namespace

Value unpickle_weights(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
                       const ScriptClasses& classes) {
  const std::vector<Global> rows = rows_without_classes();
  Graph graph(budget);
  const Ref root = Machine(pickle, graph, storages, rows).run();
  Weights(graph, classes).convert_tree(root);
  return to_value(graph, root, pickle.size(), storages);
}

}  // namespace cairn::pickle

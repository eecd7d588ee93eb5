#include "format/pickle/graph_to_value.h"

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "format/pickle/foreign_objects.h"
#include "format/pickle/storage_classes.h"
#include "format/pickle/text.h"

namespace cairn::pickle {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // Python's own recursion limit when it writes

// Post-order over the graph with an explicit stack. `weight` is the size of the tree below a node
// with shared parts counted each time: what a walk over the Value will cost.
class Converter {
 public:
  Converter(const Graph& graph, std::uint64_t budget, StorageLoader& storages)
      : graph_(graph), storages_(storages), states_(graph.size()), budget_(budget) {}

  Value convert(const Ref& root) {
    enter(root);
    while (!open_.empty()) {
      Frame& frame = open_.back();
      if (const Ref* item = next_item(frame)) {
        ++frame.next;
        enter(*item);
      } else {
        close(frame.node);
        open_.pop_back();
      }
    }
    std::uint64_t weight = 0;
    return value_of(root, weight);
  }

 private:
  struct Frame {
    NodeId node;
    std::size_t next = 0;
  };
  enum class Progress : std::uint8_t { kNotSeen, kOpen, kDone };
  struct State {
    Value value = {};
    std::uint64_t weight = 0;
    Progress progress = Progress::kNotSeen;
  };

  // nullptr when all were entered: the items, and what else belongs to a dict.
  const Ref* next_item(const Frame& frame) const {
    const auto& items = std::get<Container>(graph_.node(frame.node)).items;
    if (frame.next < items.size()) return &items[frame.next];
    const DictExtras* extras = graph_.find_extras(frame.node);
    if (extras == nullptr) return nullptr;
    if (frame.next == items.size()) return &extras->attributes;
    return frame.next == items.size() + 1 ? &extras->default_factory : nullptr;
  }

  State& state(NodeId id) { return states_[static_cast<std::size_t>(id)]; }

  // What an object is as data: its fields, or what its class was called with.
  Ref plain(Ref ref) const {
    while (const auto* object = graph_.find<Object>(ref)) {
      const auto* state = graph_.find<Container>(object->state);
      if (state != nullptr && state->is_dict()) return object->state;
      if (object->args.size() != 1 || !std::holds_alternative<None>(object->state)) break;
      ref = object->args[0];
    }
    return ref;
  }

  void enter(const Ref& item) {
    const Ref ref = plain(item);
    if (graph_.find<Container>(ref) == nullptr) return;
    const auto id = std::get<NodeId>(ref);
    if (state(id).progress == Progress::kDone) return;
    if (state(id).progress == Progress::kOpen) {
      if (passes_foreign(id)) return;
      throw CorruptError("the pickle holds " + graph_.describe(ref) + " that contains itself");
    }
    if (open_.size() >= kMaxDepth) {
      throw CorruptError("the pickle is nested deeper than " + std::to_string(kMaxDepth) +
                         " levels");
    }
    state(id).progress = Progress::kOpen;
    open_.push_back({id});
  }

  // Whether the way from the open container `id` to here leads through a foreign object.
  bool passes_foreign(NodeId id) {
    std::uint64_t steps = 0;
    for (auto frame = open_.rbegin(); frame != open_.rend(); ++frame) {
      const auto& container = std::get<Container>(graph_.node(frame->node));
      if (container.kind == Container::Kind::kForeign) return true;
      if (frame->node == id) break;
      std::uint64_t none = 0;
      spend(++steps, none);
    }
    return false;
  }

  // All items of the container are done.
  void close(NodeId id) {
    const auto& container = std::get<Container>(graph_.node(id));
    std::uint64_t weight = 1;
    try {
      state(id).value = build(id, container, weight);
    } catch (const UsageError& e) {
      throw CorruptError(std::string("the pickle is wrong: ") + e.what());
    }
    state(id).weight = weight;
    state(id).progress = Progress::kDone;
  }

  static DictType dict_type(Container::Kind kind) {
    if (kind == Container::Kind::kOrderedDict) return DictType::kOrderedDict;
    if (kind == Container::Kind::kCounter) return DictType::kCounter;
    return kind == Container::Kind::kDefaultDict ? DictType::kDefaultDict : DictType::kDict;
  }

  Value build(NodeId id, const Container& container, std::uint64_t& weight) {
    if (container.kind == Container::Kind::kForeign) return build_foreign(id, container, weight);
    if (container.is_dict()) {
      Dict dict(dict_type(container.kind));
      if (const DictExtras* extras = graph_.find_extras(id)) {
        dict.set_attributes(value_of(extras->attributes, weight));
        dict.set_default_factory(value_of(extras->default_factory, weight));
      }
      for (std::size_t i = 0; i + 1 < container.items.size(); i += 2) {
        Value key = value_of(container.items[i], weight);
        dict.set(std::move(key), value_of(container.items[i + 1], weight));
      }
      return dict;
    }
    List items;
    items.reserve(container.items.size());
    for (const Ref& item : container.items) {
      items.push_back(value_of(item, weight));
    }
    if (container.is_set())
      return set_of(std::move(items), container.kind == Container::Kind::kFrozenSet);
    if (container.kind == Container::Kind::kTuple) return Tuple{std::move(items)};
    return items;
  }

  Value build_foreign(NodeId id, const Container& container, std::uint64_t& weight) {
    const std::vector<Ref>& items = container.items;
    spend(sizeof(Foreign), weight);
    Foreign object{.made = static_cast<Foreign::Made>(std::get<std::int64_t>(items[kForeignMade]))};
    object.function = value_of(items[kForeignFunction], weight);
    object.args = value_of(items[kForeignArgs], weight);
    object.keywords = value_of(items[kForeignKeywords], weight);
    object.items = value_of(items[kForeignItems], weight);
    object.entries = value_of(items[kForeignEntries], weight);
    object.has_state = items.size() > kForeignState;
    if (object.has_state) object.state = value_of(items[kForeignState], weight);
    object.id = static_cast<std::uint64_t>(id);
    return Value(std::make_shared<const Foreign>(std::move(object)));
  }

  // A reference to the open container `id`.
  Value back_reference(NodeId id, std::uint64_t& weight) {
    spend(sizeof(Foreign), weight);
    Foreign back{.made = Foreign::Made::kBack, .module = "builtins", .name = "object"};
    back.id = static_cast<std::uint64_t>(id);
    Ref at = id;
    for (std::size_t i = 0; i < kMaxDepth; ++i) {
      const auto* container = graph_.find<Container>(at);
      if (container == nullptr || container->kind != Container::Kind::kForeign) break;
      at = container->items[kForeignFunction];
    }
    if (const auto name = named_value(graph_, at); name && name->is_foreign()) {
      back.module = name->as_foreign().module;
      back.name = name->as_foreign().name;
    }
    return Value(std::make_shared<const Foreign>(std::move(back)));
  }

  // A storage that stands by itself.
  Value storage_value(const StorageReference& reference) {
    if (reference.view_numel)
      throw UnsupportedError("the file holds a part of a storage by itself");
    Foreign object{.made = Foreign::Made::kStorage};
    TensorView tensor;
    tensor.dtype = reference.dtype.value_or(DType::kUInt8);
    tensor.storage = storages_.load(reference);
    tensor.shape = {static_cast<std::int64_t>(reference.numel)};
    tensor.strides = {1};
    check_bounds(tensor);
    object.function = Value(std::make_shared<const Foreign>(storage_name(reference)));
    object.args = Tuple{{tensor}};
    return Value(std::make_shared<const Foreign>(std::move(object)));
  }

  static Foreign storage_name(const StorageReference& reference) {
    if (!reference.dtype) return {.module = "torch.storage", .name = "UntypedStorage"};
    return {.module = "torch", .name = std::string(storage_class(*reference.dtype))};
  }

  static Value set_of(List items, bool frozen) {
    Dict seen;
    Set set{.items = {}, .frozen = frozen};
    for (Value& item : items) {
      if (seen.find(item) != nullptr) continue;
      seen.set(item, None{});
      set.items.push_back(std::move(item));
    }
    return set;
  }

  Value value_of(const Ref& item, std::uint64_t& weight) {
    const Ref ref = plain(item);
    spend(1, weight);
    if (const auto* id = std::get_if<NodeId>(&ref)) return node_value(*id, ref, weight);
    if (const auto* v = std::get_if<bool>(&ref)) return *v;
    if (const auto* v = std::get_if<std::int64_t>(&ref)) return *v;
    if (const auto* v = std::get_if<double>(&ref)) return *v;
    return None{};
  }

  Value node_value(NodeId id, const Ref& ref, std::uint64_t& weight) {
    const Node& node = graph_.node(id);
    if (std::holds_alternative<Container>(node)) {
      if (state(id).progress == Progress::kOpen) return back_reference(id, weight);
      add_weight(state(id).weight, weight);
      return state(id).value;
    }
    if (const auto* text = std::get_if<Text>(&node)) {
      spend(text->text.size(), weight);
      if (text->is_python2 && !is_utf8(text->text)) return Bytes{std::string(text->text)};
      return text->text;
    }
    if (const auto* value = std::get_if<Value>(&node)) {
      spend(owned_bytes(*value), weight);
      return *value;
    }
    return other_value(id, ref, weight);
  }

  // One object for each node, as Python has it.
  Value other_value(NodeId id, const Ref& ref, std::uint64_t& weight) {
    if (state(id).progress == Progress::kDone) return state(id).value;
    std::optional<Value> value = named_value(graph_, ref);
    if (const auto* dtype = graph_.find<NumpyDType>(ref)) value = dtype_value(*dtype);
    if (const auto* storage = graph_.find<StorageReference>(ref)) value = storage_value(*storage);
    if (!value) {
      throw UnsupportedError("the file holds " + graph_.describe(ref) + " as a value");
    }
    spend(2 * sizeof(Foreign), weight);
    state(id).value = *value;
    state(id).progress = Progress::kDone;
    return *value;
  }

  void add_weight(std::uint64_t amount, std::uint64_t& weight) {
    weight += amount;  // both are at most the budget, so that nothing overflows
    if (weight > budget_) too_large();
  }

  // Memory that is really taken now, for a copy.
  void spend(std::uint64_t amount, std::uint64_t& weight) {
    spent_ += amount;
    if (spent_ > budget_) too_large();
    add_weight(amount, weight);
  }

  [[noreturn]] static void too_large() {
    throw CorruptError("the pickle repeats itself until it is out of proportion to its size");
  }

  const Graph& graph_;
  StorageLoader& storages_;
  std::vector<State> states_;
  std::vector<Frame> open_;
  std::uint64_t budget_;
  std::uint64_t spent_ = 0;
};

}  // namespace

Value to_value(const Graph& graph, const Ref& root, std::uint64_t budget, StorageLoader& storages) {
  return Converter(graph, budget, storages).convert(root);
}

}  // namespace cairn::pickle

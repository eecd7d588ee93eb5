#include "format/pickle/read/graph_to_value.h"

#include <bit>
#include <unordered_map>
#include <vector>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "format/pickle/globals/foreign_objects.h"
#include "format/pickle/globals/storage_classes.h"
#include "format/pickle/text.h"
#include "value/value_path.h"

namespace cairn::pickle {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // Python's own recursion limit when it writes

// Real pickles repeat names and small parts, which makes the tree a few times larger than the file.
constexpr std::uint64_t kFreeWeight = std::uint64_t{16} << 20;
constexpr std::uint64_t kWeightPerByte = 64;
constexpr std::uint64_t kFreeListing = std::uint64_t{32} << 20;
constexpr std::uint64_t kListingPerByte = 8;
constexpr std::uint64_t kListed = 80;  // bytes per entry, without its path

// Walks the graph in post-order with an explicit stack. A finished node is replaced by its Value,
// so that the node and its Value are never both in memory.
class Converter {
 public:
  Converter(Graph& graph, std::uint64_t pickle_bytes, StorageLoader& storages)
      : graph_(graph),
        storages_(storages),
        most_weight_(kFreeWeight + kWeightPerByte * pickle_bytes),
        most_listing_(kFreeListing + kListingPerByte * pickle_bytes) {}

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
    Sums sums;
    return value_of(root, sums);
  }

 private:
  struct Frame {
    NodeId node;
    std::size_t next = 0;
  };

  // Sums over a tree. A shared part counts at each of its places, because a walk over the Value
  // visits it at each of them.
  struct Listing {
    std::uint64_t tensors = 0;  // and objects of classes that no table has
    std::uint64_t bytes = 0;    // in a list of all with paths (tensors_of, foreign_objects)
  };
  struct Sums {
    std::uint64_t weight = 0;  // number of Values, and bytes of texts
    Listing listing = {};
  };

  // Returns the next child to enter: first the items, then the extras of a dict. Returns nullptr if
  // all were entered.
  const Ref* next_item(const Frame& frame) const {
    const auto& items = std::get<Container>(graph_.node(frame.node)).items;
    if (frame.next < items.size()) return &items[frame.next];
    const DictExtras* extras = graph_.find_extras(frame.node);
    if (extras == nullptr) return nullptr;
    if (frame.next == items.size()) return &extras->attributes;
    return frame.next == items.size() + 1 ? &extras->default_factory : nullptr;
  }

  bool is_dict(const Ref& ref) const {
    if (const auto* container = graph_.find<Container>(ref)) return container->is_dict();
    const auto* done = graph_.find<Converted>(ref);
    return done != nullptr && done->value.is_dict();
  }

  // Returns an object's data: its fields, or the only argument of its class; otherwise the object
  // itself.
  Ref unwrap(const Object& object, const Ref& ref) const {
    if (is_dict(object.state)) return object.state;
    if (object.args.size() == 1 && object.state.is_none()) return object.args[0];
    return ref;
  }

  // Calls unwrap() repeatedly, for objects in objects. Each object is resolved once.
  Ref resolve(const Ref& ref) {
    Ref result = ref;
    while (const auto* object = graph_.find<Object>(result)) {
      const Ref next = object->resolved ? *object->resolved : unwrap(*object, result);
      if (next == result) break;
      result = next;
    }
    for (Ref at = ref; at != result;) {
      auto* object = graph_.find<Object>(at);
      at = object->resolved ? result : unwrap(*object, at);
      object->resolved = result;
    }
    return result;
  }

  void enter(const Ref& item) {
    const Ref ref = resolve(item);
    auto* container = graph_.find<Container>(ref);
    if (container == nullptr) return;
    if (container->is_open) {
      if (passes_foreign(*ref.node())) return;
      throw CorruptError("the pickle holds " + graph_.describe(ref) + " that contains itself");
    }
    if (open_.size() >= kMaxDepth) {
      throw CorruptError("the pickle is nested deeper than " + std::to_string(kMaxDepth) +
                         " levels");
    }
    container->is_open = true;
    open_.push_back({*ref.node()});
  }

  // Returns whether the path from the open container `id` to here leads through a foreign object.
  bool passes_foreign(NodeId id) {
    for (auto frame = open_.rbegin(); frame != open_.rend(); ++frame) {
      count_work(1);
      const auto& container = std::get<Container>(graph_.node(frame->node));
      if (container.kind == Container::Kind::kForeign) return true;
      if (frame->node == id) break;
    }
    return false;
  }

  // Finishes a container, all of whose items are finished.
  void close(NodeId id) {
    auto& container = std::get<Container>(graph_.node(id));
    Sums sums{.weight = 1};
    Value value;
    try {
      value = build(id, container, sums);
    } catch (const UsageError& e) {
      throw CorruptError(std::string("the pickle is wrong: ") + e.what());
    }
    if (sums.listing.tensors > 0 && !value.is_foreign()) {
      graph_.budget().take(2 * MemoryBudget::allocation(sizeof(Listing) + 2 * sizeof(void*)));
      listings_.emplace(static_cast<std::uint32_t>(id), sums.listing);
    }
    container.items.clear(graph_.refs());
    graph_.node(id) = Converted{std::move(value), sums.weight};
  }

  Value build(NodeId id, const Container& container, Sums& sums) {
    if (container.kind == Container::Kind::kForeign) return foreign(id, container, sums);
    const DictExtras* extras = graph_.find_extras(id);
    if (container.items.empty() && extras == nullptr) return empty(container);
    if (container.is_dict()) return dict(container, extras, sums);
    List items = list(container, sums);
    if (container.is_set()) {
      count_work(sums.weight);
      return set_of(std::move(items), container.kind == Container::Kind::kFrozenSet);
    }
    if (container.kind == Container::Kind::kTuple) return Tuple{std::move(items)};
    return items;
  }

  void take_object(std::size_t size) {
    graph_.budget().take(MemoryBudget::allocation(sizeof(std::uint64_t) + size));
  }
  void take_items(std::size_t count, std::size_t size) {
    graph_.budget().take(MemoryBudget::allocation(count * size));
  }

  // Returns an empty container. If the pickle refers to it only once, it needs no object of its
  // own.
  Value empty(const Container& container) {
    switch (container.kind) {
      case Container::Kind::kTuple:
        return empty_container(Kind::kTuple);
      case Container::Kind::kList:
        if (!container.is_shared) return empty_container(Kind::kList);
        take_object(sizeof(List));
        return List{};
      case Container::Kind::kSet:
      case Container::Kind::kFrozenSet:
        take_object(sizeof(Set));
        return Set{.items = {}, .frozen = container.kind == Container::Kind::kFrozenSet};
      default: {
        const DictType type = dict_type(container.kind);
        if (!container.is_shared && type == DictType::kDict) return empty_container(Kind::kDict);
        take_object(sizeof(Dict));
        return Dict(type);
      }
    }
  }

  static DictType dict_type(Container::Kind kind) {
    if (kind == Container::Kind::kOrderedDict) return DictType::kOrderedDict;
    if (kind == Container::Kind::kCounter) return DictType::kCounter;
    return kind == Container::Kind::kDefaultDict ? DictType::kDefaultDict : DictType::kDict;
  }

  // The bytes of a Dict's table: its entries, and two to four slots of four bytes for each.
  static std::size_t table_bytes(std::size_t entries) {
    return entries * sizeof(Dict::Entry) + std::bit_ceil(entries * 2) * sizeof(std::uint32_t);
  }

  Value dict(const Container& container, const DictExtras* extras, Sums& sums) {
    const std::size_t entries = container.items.size() / 2;
    take_object(sizeof(Dict));
    take_items(1, table_bytes(entries));
    Dict dict(dict_type(container.kind));
    if (extras != nullptr) {
      take_object(2 * sizeof(Value));
      dict.set_attributes(value_of(extras->attributes, sums));
      dict.set_default_factory(value_of(extras->default_factory, sums));
      list_below(std::string_view("default_factory").size(), sums.listing.tensors, sums);
    }
    dict.reserve(entries);
    for (std::size_t i = 0; i + 1 < container.items.size(); i += 2) {
      const Listing before = sums.listing;
      const std::uint64_t weight_before = sums.weight;
      Value key = value_of(container.items[i], sums);
      count_work(sums.weight - weight_before);
      count_bytes(key);
      Value value = value_of(container.items[i + 1], sums);
      if (sums.listing.tensors > before.tensors) {
        list_below(key_bytes(key), sums.listing.tensors - before.tensors, sums);
      }
      dict.set(std::move(key), std::move(value));
    }
    return dict;
  }

  List list(const Container& container, Sums& sums) {
    constexpr std::uint64_t kIndexBytes = 8;
    take_object(sizeof(Set));
    take_items(container.items.size(), sizeof(Value));
    List items;
    items.reserve(container.items.size());
    for (const Ref& item : container.items) {
      items.push_back(value_of(item, sums));
    }
    list_below(kIndexBytes, sums.listing.tensors, sums);
    return items;
  }

  // Adds one part to the paths of the tensors below this container.
  void list_below(std::uint64_t part, std::uint64_t tensors, Sums& sums) const {
    // No overflow: both are at most most_listing_, 8 x the size of a file, and a key is no longer
    // than the file.
    if (tensors > 0 && part + 1 > most_listing_ / tensors) too_large();
    sums.listing.bytes += (part + 1) * tensors;
    if (sums.listing.bytes > most_listing_) too_large();
  }

  static std::uint64_t key_bytes(const Value& key) {
    return key.is_str() ? key.as_str().size() : key_text(key).size();
  }

  Value set_of(List items, bool frozen) {
    const std::uint64_t while_it_is_made = MemoryBudget::allocation(table_bytes(items.size()));
    graph_.budget().take(while_it_is_made);
    Dict seen;
    seen.reserve(items.size());
    for (const Value& item : items) {
      count_bytes(item);
    }
    Set set{.items = std::move(items), .frozen = frozen};
    std::erase_if(set.items, [&](const Value& item) {
      const std::size_t known = seen.size();
      seen.set(item, None{});
      return seen.size() == known;
    });
    graph_.budget().give_back(while_it_is_made);
    return set;
  }

  // The memory of the items is already charged.
  Value foreign(NodeId id, const Container& container, Sums& sums) {
    const Refs& items = container.items;
    add_weight(sizeof(Foreign), sums);
    const auto made = items[kForeignMade].small_int();
    Foreign object{.made = static_cast<Foreign::Made>(made.value_or(0))};
    object.function = value_of(items[kForeignFunction], sums);
    object.args = value_of(items[kForeignArgs], sums);
    object.keywords = value_of(items[kForeignKeywords], sums);
    object.items = value_of(items[kForeignItems], sums);
    object.entries = value_of(items[kForeignEntries], sums);
    object.has_state = items.size() > kForeignState;
    if (object.has_state) object.state = value_of(items[kForeignState], sums);
    object.id = static_cast<std::uint64_t>(id);
    Value value(std::make_shared<const Foreign>(std::move(object)));
    graph_.budget().take(owned_bytes(value));
    sums.listing = {1, kListed};  // its contents are not listed
    return value;
  }

  // Makes a reference to the open container `id`.
  Value back_reference(NodeId id, Sums& sums) {
    Foreign back{.made = Foreign::Made::kBackReference, .module = "builtins", .name = "object"};
    back.id = static_cast<std::uint64_t>(id);
    if (const auto name = class_of_open(id); name && name->is_foreign()) {
      back.module = name->as_foreign().module;
      back.name = name->as_foreign().name;
    }
    Value value(std::make_shared<const Foreign>(std::move(back)));
    graph_.budget().take(owned_bytes(value));
    add_weight(owned_bytes(value), sums);
    add_listing({1, kListed}, sums);
    return value;
  }

  // Returns the class of the foreign object `id`: the name at the end of the chain of functions
  // that made it.
  std::optional<Value> class_of_open(NodeId id) const {
    Ref at = id;
    for (std::size_t i = 0; i < kMaxDepth; ++i) {
      const auto* container = graph_.find<Container>(at);
      if (container == nullptr || container->kind != Container::Kind::kForeign) break;
      at = container->items[kForeignFunction];
    }
    const auto* done = graph_.find<Converted>(at);
    if (done == nullptr) return named_value(graph_, at);
    Value name = done->value;
    while (name.is_foreign() && !name.as_foreign().function.is_none()) {
      name = Value(name.as_foreign().function);
    }
    return name;
  }

  // Makes the value of a storage that stands by itself, without a tensor.
  Value storage_value(const StorageReference& reference) {
    if (reference.view_numel)
      throw UnsupportedError("a part of a storage outside of a tensor is not supported");
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

  Value value_of(const Ref& item, Sums& sums) {
    const Ref ref = resolve(item);
    add_weight(1, sums);
    if (const auto id = ref.node()) return node_value(*id, ref, sums);
    if (const auto v = ref.boolean()) return *v;
    if (const auto v = ref.small_int()) return *v;
    if (const auto v = ref.plain_float()) return *v;
    return None{};
  }

  Value node_value(NodeId id, const Ref& ref, Sums& sums) {
    Node& node = graph_.node(id);
    if (const auto* text = std::get_if<Text>(&node)) node = converted(*text);
    if (const auto* done = std::get_if<Converted>(&node)) {
      add_weight(done->weight, sums);
      if (const auto found = listings_.find(static_cast<std::uint32_t>(id));
          found != listings_.end()) {
        add_listing(found->second, sums);
      } else if (done->value.is_foreign()) {
        add_listing({1, kListed}, sums);
      }
      return done->value;
    }
    if (const auto* v = std::get_if<std::int64_t>(&node)) return *v;
    if (const auto* v = std::get_if<double>(&node)) return *v;
    if (const auto* value = std::get_if<Value>(&node)) {
      add_weight(owned_bytes(*value), sums);
      if (value->is_tensor()) add_listing({1, kListed}, sums);
      if (value->kind() == Kind::kSparse) add_listing({3, 4 * kListed}, sums);
      const Value result = *value;
      // If the value is written again, later occurrences of these bytes are references, however
      // long the bytes are.
      if (result.kind() == Kind::kBytes) node = Converted{result, sizeof(Bytes)};
      return result;
    }
    if (std::holds_alternative<Container>(node)) return back_reference(id, sums);
    return other_value(id, ref, sums);
  }

  // Makes one object for each node, as Python does.
  Value other_value(NodeId id, const Ref& ref, Sums& sums) {
    std::optional<Value> value = named_value(graph_, ref);
    if (const auto* dtype = graph_.find<NumpyDType>(ref)) value = dtype_value(*dtype);
    if (const auto* storage = graph_.find<StorageReference>(ref)) value = storage_value(*storage);
    if (!value) {
      throw UnsupportedError("the file holds " + graph_.describe(ref) +
                             " as a value, which is not supported");
    }
    const std::uint64_t bytes = tree_bytes(*value);
    graph_.budget().take(bytes);
    // A name may occur often, but its full length is written only once.
    const bool is_name = value->is_foreign() && value->as_foreign().made == Foreign::Made::kNamed;
    const std::uint64_t weight =
        is_name ? value->as_foreign().module.size() + value->as_foreign().name.size() : bytes;
    add_weight(weight, sums);
    if (value->is_foreign()) add_listing({1, kListed}, sums);
    graph_.node(id) = Converted{*value, weight};
    return *value;
  }

  // Returns the bytes of a Value that was made here, with its parts, which are few.
  static std::uint64_t tree_bytes(const Value& value) {
    std::uint64_t bytes = owned_bytes(value);
    if (value.is_foreign()) {
      const Foreign& object = value.as_foreign();
      bytes += tree_bytes(object.function) + tree_bytes(object.args) + tree_bytes(object.state);
    }
    if (value.is_tuple()) {
      const List& items = value.as_items();
      bytes += MemoryBudget::allocation(sizeof(std::uint64_t) + sizeof(Tuple)) +
               MemoryBudget::allocation(items.size() * sizeof(Value));
      for (const Value& item : items) {
        bytes += tree_bytes(item);
      }
    }
    return bytes;
  }

  Converted converted(const Text& text) {
    take_object(sizeof(Bytes));
    take_items(text.text.size() + 1, 1);
    if (text.is_python2 && !is_utf8(text.text)) {
      return {Bytes{std::string(text.text)}, text.text.size()};
    }
    return {text.text, text.text.size()};
  }

  // Counts values that are visited completely for each container that holds them, such as keys,
  // which are hashed. The weight of these values in the whole tree is known only at the end.
  void count_work(std::uint64_t amount) {
    work_ += amount;
    if (work_ > most_weight_) too_large();
  }

  // Counts bytes objects in a key: after the first occurrence they have almost no weight.
  void count_bytes(const Value& key) {
    if (key.kind() == Kind::kBytes) count_work(key.as_bytes().data.size());
    if (!key.is_tuple() && key.kind() != Kind::kSet) return;
    for (const Value& item : key.is_tuple() ? key.as_items() : key.as_set().items) {
      count_bytes(item);
    }
  }

  void add_weight(std::uint64_t amount, Sums& sums) const {
    sums.weight += amount;  // both are at most the bound, so nothing overflows
    if (sums.weight > most_weight_) too_large();
  }

  void add_listing(const Listing& more, Sums& sums) const {
    sums.listing.tensors += more.tensors;
    sums.listing.bytes += more.bytes;
    if (sums.listing.bytes > most_listing_) too_large();
  }

  [[noreturn]] static void too_large() {
    throw CorruptError(
        "the pickle repeats objects so often that it grows out of proportion to its size");
  }

  Graph& graph_;
  StorageLoader& storages_;
  std::vector<Frame> open_;
  std::unordered_map<std::uint32_t, Listing> listings_;  // of containers with tensors
  std::uint64_t most_weight_;
  std::uint64_t most_listing_;
  std::uint64_t work_ = 0;
};

}  // namespace

Value to_value(Graph& graph, const Ref& root, std::uint64_t pickle_bytes, StorageLoader& storages) {
  return Converter(graph, pickle_bytes, storages).convert(root);
}

}  // namespace cairn::pickle

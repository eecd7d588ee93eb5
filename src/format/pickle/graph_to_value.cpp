#include "format/pickle/graph_to_value.h"

#include "cairn/error.h"

#include "format/pickle/text.h"

namespace cairn::pickle {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // Python's own recursion limit when it writes

// Post-order over the graph with an explicit stack. `weight` is the size of the tree below a node
// with shared parts counted each time: what a walk over the Value will cost.
class Converter {
 public:
  Converter(const Graph& graph, std::uint64_t budget)
      : graph_(graph), states_(graph.size()), budget_(budget) {}

  Value convert(const Ref& root) {
    enter(root);
    while (!open_.empty()) {
      Frame& frame = open_.back();
      const auto& items = std::get<Container>(graph_.node(frame.node)).items;
      if (frame.next < items.size()) {
        enter(items[frame.next++]);
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
      throw CorruptError("the pickle holds " + graph_.describe(ref) + " that contains itself");
    }
    if (open_.size() >= kMaxDepth) {
      throw CorruptError("the pickle is nested deeper than " + std::to_string(kMaxDepth) +
                         " levels");
    }
    state(id).progress = Progress::kOpen;
    open_.push_back({id});
  }

  // All items of the container are done.
  void close(NodeId id) {
    const auto& container = std::get<Container>(graph_.node(id));
    std::uint64_t weight = 1;
    try {
      state(id).value = build(container, weight);
    } catch (const UsageError& e) {
      throw CorruptError(std::string("the pickle is wrong: ") + e.what());
    }
    state(id).weight = weight;
    state(id).progress = Progress::kDone;
  }

  Value build(const Container& container, std::uint64_t& weight) {
    if (container.is_dict()) {
      Dict dict({}, container.kind == Container::Kind::kOrderedDict);
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
    throw UnsupportedError("the file holds " + graph_.describe(ref) + " as a value");
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
  std::vector<State> states_;
  std::vector<Frame> open_;
  std::uint64_t budget_;
  std::uint64_t spent_ = 0;
};

}  // namespace

Value to_value(const Graph& graph, const Ref& root, std::uint64_t budget) {
  return Converter(graph, budget).convert(root);
}

}  // namespace cairn::pickle

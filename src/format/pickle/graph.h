// What a pickle builds while it runs: objects that may still change and that refer to one another.
//
// Scalars live in the reference; everything else is a node. No node is destroyed before the graph,
// and none owns another, so that neither cycles nor depth matter here.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "cairn/value.h"

namespace cairn::pickle {

struct Global;  // globals.h

enum class NodeId : std::uint32_t {};

using Ref = std::variant<None, bool, std::int64_t, double, NodeId>;

struct Text {
  std::string_view text;    // in the pickle
  bool is_python2 = false;  // Python 2's str: bytes or text, nobody knows; else valid UTF-8
};

struct Container {
  enum class Kind : std::uint8_t {
    kList,
    kTuple,
    kSet,
    kFrozenSet,
    kDict,
    kOrderedDict,
    kScriptObject,  // of TorchScript: the dict of its attributes, which BUILD gives it
    kCounter,
    kDefaultDict,
    kForeign,  // foreign_objects.h says what its items are
  };
  Kind kind = Kind::kList;
  std::vector<Ref> items = {};  // of a dict: key, value, key, value, ...

  bool is_dict() const {
    return kind == Kind::kDict || kind == Kind::kOrderedDict || kind == Kind::kScriptObject ||
           kind == Kind::kCounter || kind == Kind::kDefaultDict;
  }
  bool is_set() const { return kind == Kind::kSet || kind == Kind::kFrozenSet; }
};

struct StorageClass {
  std::optional<DType> dtype;  // nullopt: untyped, counted in bytes
};

// A persistent id: a storage outside the pickle.
struct StorageReference {
  std::string_view key;
  std::string_view location;
  std::optional<DType> dtype;
  std::uint64_t numel = 0;  // elements of dtype; bytes when that is nullopt
  // Of the format before PyTorch 1.6: only these elements are meant, the tensor counts from there.
  std::uint64_t view_offset = 0;
  std::optional<std::uint64_t> view_numel = std::nullopt;
};

struct NumpyDType {
  char kind = 'f';  // numpy's: b i u f c
  std::size_t item_size = 0;
  bool is_big_endian = false;
};

// An instance of a class that stands for data only: no code of it is known or run. What it means is
// up to whoever gave its class's row.
struct Object {
  const Global* type = nullptr;
  std::vector<Ref> args = {};  // of its making
  Ref state = None{};          // what BUILD gave it
};

// _reconstruct()'s, before BUILD gives it its content.
struct NumpyArrayShell {
  std::array<Ref, 3> args = {};
  NumpyNames names = NumpyNames::kNumpy2;
};

// A class or function that no table has.
struct ForeignName {
  std::string_view module;
  std::string_view name;
};

// What some dicts have beside their items.
struct DictExtras {
  Ref attributes = None{};
  Ref default_factory = None{};
};

using Node = std::variant<Text, Container, const Global*, StorageClass, StorageReference,
                          NumpyDType, NumpyArrayShell, ForeignName, Object, Value>;

// Bytes that a copy of `value` copies, beyond the Value itself.
std::uint64_t owned_bytes(const Value& value);

class Graph {
 public:
  // `budget` bounds the bytes that nodes own beyond themselves: calls copy their arguments, and
  // ten bytes of pickle may call with the same megabyte again and again.
  explicit Graph(std::uint64_t budget) : budget_(budget) {}

  // CorruptError when the budget is used up, or NodeId cannot count the nodes.
  Ref add(Node node);

  // Keeps a text that does not stand in the pickle as it is. CorruptError as of add().
  std::string_view keep(std::string text);

  // Makes the node behind `id` another one.
  void replace(NodeId id, Node node);

  // Counts `bytes` of work or memory that no node shows. CorruptError as of add().
  void charge(std::uint64_t bytes);

  // Of the dict behind `id`. The reference is valid until the next call.
  DictExtras& extras(NodeId id);
  // nullptr when it has none.
  const DictExtras* find_extras(NodeId id) const;

  // References and pointers to nodes are valid until the next add(); what a Container's items or a
  // Text's view point at stays where it is.
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  std::size_t size() const { return nodes_.size(); }

  // The node behind `ref` when it is a T; nullptr otherwise.
  template <class T>
  T* find(const Ref& ref) {
    const auto* id = std::get_if<NodeId>(&ref);
    return id == nullptr ? nullptr : std::get_if<T>(&node(*id));
  }
  template <class T>
  const T* find(const Ref& ref) const {
    return const_cast<Graph*>(this)->find<T>(ref);  // NOLINT
  }

  // "a list", "torch.Size", "the number 3": for messages.
  std::string describe(const Ref& ref) const;

 private:
  std::vector<Node> nodes_;
  std::deque<std::string> texts_;
  std::unordered_map<std::uint32_t, DictExtras> extras_;

  std::uint64_t budget_;
};

}  // namespace cairn::pickle

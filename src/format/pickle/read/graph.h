// What a pickle builds while it runs: objects that may still change and that refer to one another.
//
// Most numbers live in the reference (ref.h); everything else is a node. No node is destroyed
// before the graph, and none owns another, so that neither cycles nor depth matter here. All memory
// is taken from one budget.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/value.h"

#include "format/pickle/read/ref.h"
#include "io/memory/memory_budget.h"

namespace cairn::pickle {

struct Global;  // globals.h

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
  bool is_shared = false;  // the pickle referred to it again
  bool is_open = false;    // see graph_to_value.cpp
  Refs items = {};         // of a dict: key, value, key, value, ...

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
  Refs args = {};                           // of its making
  Ref state = None{};                       // what BUILD gave it
  std::optional<Ref> plain = std::nullopt;  // see graph_to_value.cpp
};

// A node that is done, in place of what it was made from; see graph_to_value.cpp.
struct Converted {
  Value value;
  std::uint64_t weight = 0;
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

// The rare and large ones by pointer: a pickle may make a node with each of its bytes. Those of
// storages, which are many, stand in a table of the graph.
using Node = std::variant<Text, Container, const Global*, StorageClass, NumpyDType, std::int64_t,
                          double, Value, Converted, StorageReference*, std::unique_ptr<Object>,
                          std::unique_ptr<NumpyArrayShell>, std::unique_ptr<ForeignName>>;
static_assert(sizeof(Node) <= 32);

// Bytes that `value` takes beyond the Value itself, without its items.
std::uint64_t owned_bytes(const Value& value);
// And that numbers take beyond the Dims.
std::uint64_t bytes_beside(const Dims& numbers);

// What it holds stays where it is, as in a deque, with blocks that are worth an allocation.
template <class T>
class Blocks {
 public:
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return blocks_[i / kInBlock][i % kInBlock]; }
  const T& operator[](std::size_t i) const { return blocks_[i / kInBlock][i % kInBlock]; }
  T& push_back(T value) {
    if (size_ % kInBlock == 0) {
      std::vector<T> block;
      block.reserve(kInBlock);
      blocks_.push_back(std::move(block));
    }
    ++size_;
    return blocks_.back().emplace_back(std::move(value));
  }

 private:
  static constexpr std::size_t kInBlock = 1024;

  std::vector<std::vector<T>> blocks_;
  std::size_t size_ = 0;
};

class Graph {
 public:
  // `budget` must outlive the graph, which gives back its nodes when it ends; what Values and
  // unfinished containers hold stays taken.
  explicit Graph(MemoryBudget& budget) : refs_(budget), budget_(budget) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // UnsupportedError when the budget is used up, CorruptError when NodeId cannot count the nodes.
  Ref add(Node node);
  Ref add(StorageReference reference);
  Ref add(Object object);
  Ref add(NumpyArrayShell shell);
  Ref add(ForeignName name);
  Ref add_integer(std::int64_t v);
  Ref add_real(double v);

  // Keeps a text that does not stand in the pickle as it is. Throws as add() does.
  std::string_view keep(std::string text);

  // Makes the node behind `id` another one.
  void replace(NodeId id, Node node);

  // Counts references that were looked at and of which nothing was made. CorruptError when those
  // are out of proportion to the file.
  void charge(std::uint64_t references);

  // Of the dict behind `id`; made when it has none. Stays where it is. Throws as add() does.
  DictExtras& extras(NodeId id);
  // nullptr when it has none.
  const DictExtras* find_extras(NodeId id) const;

  // Stay where they are.
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }

  MemoryBudget& budget() { return budget_; }
  // Of all Refs in the graph, and of those that its users make meanwhile.
  RefMemory& refs() { return refs_; }

  // The node behind `ref` when it is a T; nullptr otherwise.
  template <class T>
  T* find(const Ref& ref) {
    const auto id = ref.node();
    if (!id) return nullptr;
    if constexpr (std::is_same_v<T, StorageReference>) {
      auto* pointer = std::get_if<StorageReference*>(&node(*id));
      return pointer == nullptr ? nullptr : *pointer;
    } else if constexpr (std::is_same_v<T, Object> || std::is_same_v<T, NumpyArrayShell> ||
                         std::is_same_v<T, ForeignName>) {
      auto* pointer = std::get_if<std::unique_ptr<T>>(&node(*id));
      return pointer == nullptr ? nullptr : pointer->get();
    } else {
      return std::get_if<T>(&node(*id));
    }
  }
  template <class T>
  const T* find(const Ref& ref) const {
    return const_cast<Graph*>(this)->find<T>(ref);  // NOLINT
  }

  // An int of 64 bits, a float; nullopt for everything else.
  std::optional<std::int64_t> integer(const Ref& ref) const;
  std::optional<double> real(const Ref& ref) const;

  // "a list", "torch.Size", "the number 3": for messages.
  std::string describe(const Ref& ref) const;

 private:
  RefMemory refs_;  // ends last
  Blocks<Node> nodes_;
  Blocks<StorageReference> storages_;
  std::deque<std::string> texts_;
  std::unordered_map<std::uint32_t, DictExtras> extras_;
  MemoryBudget& budget_;
  std::uint64_t looked_at_ = 0;
};

}  // namespace cairn::pickle

// The objects that a pickle builds while it runs. They may still change, and refer to one another.
//
// Most numbers are in the reference itself (ref.h); everything else is a node. Nodes live until the
// graph ends, and no node owns another, so neither cycles nor depth matter here. All memory is
// charged to one budget.
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
  std::string_view text;    // a part of the pickle
  bool is_python2 = false;  // Python 2's str, which may be bytes or text; else valid UTF-8
};

struct Container {
  enum class Kind : std::uint8_t {
    kList,
    kTuple,
    kSet,
    kFrozenSet,
    kDict,
    kOrderedDict,
    kScriptObject,  // of TorchScript: the dict of its attributes, from BUILD
    kCounter,
    kDefaultDict,
    kForeign,  // its items: see foreign_objects.h
  };
  Kind kind = Kind::kList;
  bool is_shared = false;  // the pickle referred to it again
  bool is_open = false;    // see graph_to_value.cpp
  Refs items = {};         // in a dict: key, value, key, value, ...

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
  std::uint64_t numel = 0;  // elements of dtype; bytes if dtype is nullopt
  // In the format before PyTorch 1.6, a tensor may use only a view of the storage: `view_numel`
  // elements from `view_offset` on. The offset of the tensor then counts from `view_offset`.
  std::uint64_t view_offset = 0;
  std::optional<std::uint64_t> view_numel = std::nullopt;
};

struct NumpyDType {
  char kind = 'f';  // numpy's: b i u f c
  std::size_t item_size = 0;
  bool is_big_endian = false;
};

// An instance of a class that only holds data; no code of the class is known or run. The code that
// registered the class's row decides what the instance means.
struct Object {
  const Global* type = nullptr;
  Refs args = {};                              // of the constructor
  Ref state = None{};                          // from BUILD
  std::optional<Ref> resolved = std::nullopt;  // see graph_to_value.cpp
};

// A finished node, in place of the node that it was made from; see graph_to_value.cpp.
struct Converted {
  Value value;
  std::uint64_t weight = 0;
};

// The array of _reconstruct(), before BUILD gives it its content.
struct NumpyArrayShell {
  std::array<Ref, 3> args = {};
  NumpyNames names = NumpyNames::kNumpy2;
};

// A class or function that no table has.
struct ForeignName {
  std::string_view module;
  std::string_view name;
};

// The parts that some dicts have in addition to their items.
struct DictExtras {
  Ref attributes = None{};
  Ref default_factory = None{};
};

// Rare and large kinds are held by pointer, because a pickle may make a node with each of its
// bytes. References to storages, which are many, are in a table of the graph.
using Node = std::variant<Text, Container, const Global*, StorageClass, NumpyDType, std::int64_t,
                          double, Value, Converted, StorageReference*, std::unique_ptr<Object>,
                          std::unique_ptr<NumpyArrayShell>, std::unique_ptr<ForeignName>>;
static_assert(sizeof(Node) <= 32);

// Returns the bytes that `value` takes beyond the Value itself, without its items.
std::uint64_t owned_bytes(const Value& value);
// Returns the bytes that the numbers take beyond the Dims itself.
std::uint64_t bytes_beside(const Dims& numbers);

// A sequence whose elements never move, like a deque, with blocks large enough for an allocation.
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
  // `budget` must outlive the graph. The destructor gives back the memory of the nodes; the memory
  // of Values and unfinished containers stays charged.
  explicit Graph(MemoryBudget& budget) : refs_(budget), budget_(budget) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Throws UnsupportedError if the budget is used up, CorruptError if NodeId cannot count the
  // nodes.
  Ref add(Node node);
  Ref add(StorageReference reference);
  Ref add(Object object);
  Ref add(NumpyArrayShell shell);
  Ref add(ForeignName name);
  Ref add_integer(std::int64_t v);
  Ref add_real(double v);

  // Keeps a text that is not part of the pickle as it is. Throws as add() does.
  std::string_view keep(std::string text);

  // Replaces the node `id`.
  void replace(NodeId id, Node node);

  // Counts references that were visited without making anything of them. Throws CorruptError if
  // their number is out of proportion to the size of the file.
  void charge(std::uint64_t references);

  // Returns the extras of the dict `id`, and makes them if there are none. The extras never move.
  // Throws as add() does.
  DictExtras& extras(NodeId id);
  // Returns nullptr if the dict has no extras.
  const DictExtras* find_extras(NodeId id) const;

  // Nodes never move.
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }

  MemoryBudget& budget() { return budget_; }
  // The memory of all Refs in the graph, and of those that its users make meanwhile.
  RefMemory& refs() { return refs_; }

  // Returns the node of `ref` if it is a T, otherwise nullptr.
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

  // Return an int of 64 bits, or a float; nullopt for everything else.
  std::optional<std::int64_t> integer(const Ref& ref) const;
  std::optional<double> real(const Ref& ref) const;

  // Describes the object for messages: "a list", "torch.Size", "the number 3".
  std::string describe(const Ref& ref) const;

 private:
  RefMemory refs_;  // destroyed last
  Blocks<Node> nodes_;
  Blocks<StorageReference> storages_;
  std::deque<std::string> texts_;
  std::unordered_map<std::uint32_t, DictExtras> extras_;
  MemoryBudget& budget_;
  std::uint64_t charged_references_ = 0;
};

}  // namespace cairn::pickle

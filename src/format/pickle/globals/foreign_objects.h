// Objects of classes that no table has, while a pickle runs: containers of what it says of them.
#pragma once

#include "cairn/foreign.h"

#include "format/pickle/read/graph.h"

namespace cairn::pickle {

// The items of a Container of Kind::kForeign. Those that are not there are None.
enum ForeignItem : std::uint8_t {
  kForeignFunction,  // a ForeignName, a Global, a StorageClass or another foreign object
  kForeignMade,      // a Foreign::Made, as an int
  kForeignArgs,      // a tuple
  kForeignKeywords,  // a dict
  kForeignItems,     // a list
  kForeignEntries,   // a dict
  kForeignState,     // only when BUILD gave it one
};

// Whether `ref` is such an object, or the name of a class or function that no table has.
bool is_foreign(const Graph& graph, const Ref& ref);

// Whether one of a call's arguments, or one of the first in them, is foreign: then a known function
// that refuses them has met no damage.
bool has_foreign(const Graph& graph, std::span<const Ref> args);

// Whether one of them is bytes of Python 2 that are no text: written again they would be of another
// type, for which the function has another answer.
bool has_python2_bytes(const Graph& graph, std::span<const Ref> args);

// Whether an object can be made by calling `function`, at least in name.
bool is_callable(const Graph& graph, const Ref& function);

// What `function` makes of `args`, which are a tuple; `keywords` are a dict or None.
Ref make_foreign(Graph& graph, Foreign::Made made, const Ref& function, const Ref& args,
                 const Ref& keywords = None{});

// What APPENDS and SETITEMS add to the object behind `id`.
void add_to_foreign(Graph& graph, NodeId id, std::span<const Ref> items, bool to_dict);

// What BUILD gives it. UnsupportedError for a second time.
void set_foreign_state(Graph& graph, NodeId id, const Ref& state);

// A numpy array whose content is no numbers.
void replace_by_foreign(Graph& graph, NodeId shell, const Ref& state);

// The Value for a class or function, or a storage class, that stands where data is expected: its
// name. nullopt when `ref` is none.
std::optional<Value> named_value(const Graph& graph, const Ref& ref);

// numpy.dtype('<f4') by itself.
Value dtype_value(const NumpyDType& dtype);

}  // namespace cairn::pickle

// Objects of classes that no table has, while a pickle runs. Each is a container of what the pickle
// says about the object.
#pragma once

#include "cairn/foreign.h"

#include "format/pickle/read/graph.h"

namespace cairn::pickle {

// The items of a Container of Kind::kForeign. Missing items are None.
enum ForeignItem : std::uint8_t {
  kForeignFunction,  // a ForeignName, a Global, a StorageClass or another foreign object
  kForeignMade,      // a Foreign::Made, as an int
  kForeignArgs,      // a tuple
  kForeignKeywords,  // a dict
  kForeignItems,     // a list
  kForeignEntries,   // a dict
  kForeignState,     // only if BUILD gave it one
};

// Returns whether `ref` is a foreign object, or the name of a class or function that no table has.
bool is_foreign(const Graph& graph, const Ref& ref);

// Returns whether an argument of a call, or one of the first items in an argument, is foreign. If
// one is, and a known function refuses the arguments, the file is not damaged.
bool has_foreign(const Graph& graph, std::span<const Ref> args);

// Returns whether an argument, or one of the first items in it, is bytes of Python 2 that are not
// UTF-8. If the file were written again, these bytes would be of another type, and the function
// would return something else.
bool has_python2_bytes(const Graph& graph, std::span<const Ref> args);

// Returns whether an object can be made by calling `function`, going by its name only.
bool is_callable(const Graph& graph, const Ref& function);

// Makes the object for a call of `function` with `args`, a tuple. `keywords` is a dict or None.
Ref make_foreign(Graph& graph, Foreign::Made made, const Ref& function, const Ref& args,
                 const Ref& keywords = None{});

// Adds the items of APPENDS or SETITEMS to the object `id`.
void add_to_foreign(Graph& graph, NodeId id, std::span<const Ref> items, bool to_dict);

// Sets the state that BUILD gives to the object `id`. Throws UnsupportedError if there is a state
// already.
void set_foreign_state(Graph& graph, NodeId id, const Ref& state);

// Replaces `shell` by a foreign object: a numpy array whose content is not numbers.
void replace_by_foreign(Graph& graph, NodeId shell, const Ref& state);

// Returns a Value with the name of a class, function or storage class that is found in place of
// data. nullopt if `ref` is none of these.
std::optional<Value> named_value(const Graph& graph, const Ref& ref);

// The value of numpy.dtype('<f4') by itself.
Value dtype_value(const NumpyDType& dtype);

}  // namespace cairn::pickle

// Foreign: stands in a Value for an object of a class that cairn does not know.
//
//   const Value value = load("ep1.pt");  // the objects are in it
//   for (const auto& [path, object] : foreign_objects(value)) {
//     std::cout << path << ": " << object->class_name() << "\n";
//   }
//
// Asking such a Value for another type (as_dict(), as_tensor()) throws UnsupportedError, which
// names the class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// Stands for an object of a class that cairn does not know, or for such a class or function itself.
// Holds the name, and the data that the file gives for the object. A Foreign is inert: cairn never
// imports, looks up or calls anything by that name, neither here nor when it writes the object
// again.
struct Foreign {
  enum class Made : std::uint8_t {
    kNamed,          // the class or function itself
    kCalled,         // what `function` returns for `args`
    kNew,            // an instance of the class `function`, made with `args` and `keywords`
    kBackReference,  // a reference to an enclosing object: a cycle, which a tree cannot hold
    kBack [[deprecated("use kBackReference")]] = kBackReference,
    kStorage,  // a torch storage by itself; args: a one-dimensional tensor of all its elements
  };
  Made made = Made::kNamed;
  std::string module = {};  // of kNamed and kBackReference: "torchmetrics.classification.accuracy"
  std::string name = {};    // "Accuracy"
  // For the other kinds. A field that the object does not have is None.
  Value function = {};  // a Foreign
  Value args = {};      // tuple
  Value keywords = {};  // dict
  Value items = {};     // list: appended, as to a subclass of list
  Value entries = {};   // dict: set, as to a subclass of dict
  Value state = {};     // the object's attributes, mostly a dict
  bool has_state = false;
  std::uint64_t id = 0;  // within its file: the id of the object that a kBackReference refers to

  // The class of an object, as far as cairn can tell:
  // "torchmetrics.classification.accuracy.Accuracy". For a parameter, the class of its tensor.
  // Otherwise the name of the function that makes it.
  std::string class_name() const;
};

// Whether a defaultdict's factory is None or one of Python's own types (int, list, ...).
bool is_plain_factory(const Value& factory);

// The classes of the foreign objects in `root`, by name, and how many there are of each. Objects
// within foreign objects do not count.
std::vector<std::pair<std::string, std::size_t>> foreign_classes(const Value& root);
// All foreign objects with their paths, in tree order. Includes those that are keys, attributes of
// dicts, and factories that are not plain.
std::vector<std::pair<std::string, const Foreign*>> foreign_objects(const Value& root);

}  // namespace cairn

#include "cairn/foreign.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "core/hash/seeded_hash.h"
#include "value/value_path.h"

namespace cairn {
namespace {

// Functions that make an instance of one of their arguments, or wrap it. Pickles of old protocols
// call functions of copyreg for this. PyTorch's functions make tensors of subclasses, and
// parameters of such tensors.
struct MakerOfArgument {
  std::string_view module;
  std::string_view name;
  std::size_t argument;
};
constexpr MakerOfArgument kMakers[] = {
    {"copyreg", "_reconstructor", 0},
    {"copyreg", "__newobj__", 0},
    {"copyreg", "__newobj_ex__", 0},
    {"torch._tensor", "_rebuild_from_type", 1},
    {"torch._tensor", "_rebuild_from_type_v2", 1},
    {"torch._utils", "_rebuild_wrapper_subclass", 0},
    {"torch._utils", "_rebuild_parameter", 0},
    {"torch._utils", "_rebuild_parameter_with_state", 0},
};

// Returns the class of `object` if the object is an instance, otherwise the function that it calls.
// Returns nullptr if the object has no function.
const Foreign* maker_of(const Foreign& object) {
  if (!object.function.is_foreign()) return nullptr;
  const Foreign& function = object.function.as_foreign();
  const auto* maker = std::ranges::find_if(kMakers, [&](const MakerOfArgument& known) {
    return known.module == function.module && known.name == function.name;
  });
  if (maker == std::end(kMakers) || !object.args.is_tuple()) return &function;
  const List& args = object.args.as_items();
  const bool is_told = args.size() > maker->argument && args[maker->argument].is_foreign();
  return is_told ? &args[maker->argument].as_foreign() : &function;
}

// Makes the text of a path only for objects that it finds: other paths may be long.
class ForeignFinder {
 public:
  std::vector<std::pair<std::string, const Foreign*>> find(const Value& root) {
    visit(root);
    return std::move(found_);
  }

 private:
  // A dict's key, an index in a list, or a name.
  using Part = std::variant<const Value*, std::size_t, std::string_view>;

  static std::string text_of(const Part& part) {
    if (const auto* key = std::get_if<const Value*>(&part)) return key_text(**key);
    if (const auto* index = std::get_if<std::size_t>(&part)) return std::to_string(*index);
    return std::string(std::get<std::string_view>(part));
  }

  std::string path() const {
    std::string path;
    for (const Part& part : path_) {
      path += (path.empty() ? "" : "/") + text_of(part);
    }
    return path;
  }

  void visit_below(const Part& part, const Value& value) {
    path_.push_back(part);
    visit(value);
    path_.pop_back();
  }

  // Value trees are at most a thousand levels deep, whatever file they come from.
  void visit(const Value& value) {
    if (value.is_foreign()) {
      found_.emplace_back(path(), &value.as_foreign());
    } else if (value.is_dict()) {
      const Dict& dict = value.as_dict();
      for (const auto& [key, item] : dict) {
        visit_below(&key, key);
        visit_below(&key, item);
      }
      visit_below("__dict__", dict.attributes());
      if (!is_plain_factory(dict.default_factory())) {
        visit_below("default_factory", dict.default_factory());
      }
    } else if (value.is_list() || value.is_tuple()) {
      std::size_t i = 0;
      for (const Value& item : value.as_items()) {
        visit_below(i++, item);
      }
    } else if (value.kind() == Kind::kSet) {
      for (const Value& item : value.as_set().items) {
        visit(item);
      }
    }
  }

  std::vector<Part> path_;
  std::vector<std::pair<std::string, const Foreign*>> found_;
};

}  // namespace

std::string Foreign::class_name() const {
  const Foreign* at = this;
  while (const Foreign* maker = maker_of(*at)) {
    at = maker;
  }
  return at->module + "." + at->name;
}

bool is_plain_factory(const Value& factory) {
  constexpr std::string_view kTypes[] = {"int",  "float", "bool", "str", "bytes",
                                         "list", "tuple", "dict", "set", "complex"};
  if (factory.is_none()) return true;
  if (!factory.is_foreign()) return false;
  const Foreign& name = factory.as_foreign();
  return name.made == Foreign::Made::kNamed && name.module == "builtins" &&
         std::find(std::begin(kTypes), std::end(kTypes), name.name) != std::end(kTypes);
}

std::vector<std::pair<std::string, const Foreign*>> foreign_objects(const Value& root) {
  return ForeignFinder().find(root);
}

std::vector<std::pair<std::string, std::size_t>> foreign_classes(const Value& root) {
  std::vector<std::pair<std::string, std::size_t>> classes;
  // Indices into `classes`. The hash is seeded, because a file chooses the names.
  std::unordered_map<std::string, std::size_t, TextHash> places;
  for (const auto& [path, object] : foreign_objects(root)) {
    const std::string name = object->class_name();
    const auto [place, is_new] = places.try_emplace(name, classes.size());
    if (is_new) classes.emplace_back(name, 0);
    ++classes[place->second].second;
  }
  return classes;
}

}  // namespace cairn

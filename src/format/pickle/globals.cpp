#include "format/pickle/globals.h"

#include <algorithm>

#include "cairn/error.h"

#include "format/pickle/storage_classes.h"

namespace cairn::pickle {
namespace {

// What Python 2 called the modules of today. (Its names for functions are rows of the tables.)
std::string_view today(std::string_view module) {
  if (module == "__builtin__") return "builtins";
  if (module == "copy_reg") return "copyreg";
  if (module == "numpy._core.multiarray") return "numpy.core.multiarray";  // numpy 2
  return module;
}

bool is_row(const Global& global, std::string_view module, std::string_view name) {
  if (global.name != "*") return global.module == module && global.name == name;
  return module.starts_with(global.module) &&
         (module.size() == global.module.size() || module[global.module.size()] == '.');
}

const Global* find_global(std::string_view module, std::string_view name,
                          std::span<const Global> more) {
  for (const auto table : {more, python_globals(), torch_globals(), sparse_globals(),
                           quantized_globals(), numpy_globals()}) {
    const auto row = std::find_if(table.begin(), table.end(), [&](const Global& global) {
      return is_row(global, module, name);
    });
    if (row != table.end()) return &*row;
  }
  return nullptr;
}

// Things that users meet and that deserve more than their name.
std::string_view advice_for(std::string_view module, std::string_view name) {
  if (name == "_rebuild_meta_tensor_no_storage") return "a meta tensor has no data";
  if (module.starts_with("torch.nn.modules") || module.starts_with("__torch__")) {
    return "it holds a whole module: save its state_dict() instead";
  }
  return "save plain dicts, lists, numbers, strings and tensors instead";
}

}  // namespace

Ref make_object(const Call& call) {
  return call.graph.add(Object{&call.global, {call.args.begin(), call.args.end()}});
}

Ref resolve_global(Graph& graph, std::string_view module, std::string_view name,
                   std::span<const Global> more) {
  if (module == "torch" || module == "torch.cuda") {
    if (const auto dtype = find_storage_class(name)) return graph.add(StorageClass{dtype});
  }
  if (module == "torch") {
    if (const auto dtype = find_dtype(name)) return graph.add(Value(*dtype));
  }
  if (module == "torch.storage" && (name == "UntypedStorage" || name == "_UntypedStorage")) {
    return graph.add(StorageClass{std::nullopt});
  }
  if (const Global* global = find_global(today(module), name, more)) return graph.add(global);
  throw UnsupportedError("the file needs " + std::string(module.substr(0, 200)) + "." +
                         std::string(name.substr(0, 200)) +
                         ", and cairn runs no code from a file; " +
                         std::string(advice_for(module, name)));
}

}  // namespace cairn::pickle

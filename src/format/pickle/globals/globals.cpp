#include "format/pickle/globals/globals.h"

#include <algorithm>

#include "cairn/error.h"

#include "format/pickle/globals/storage_classes.h"
#include "format/pickle/text.h"

namespace cairn::pickle {
namespace {

// Returns the Python 3 name of a module or class that Python 2 called otherwise. A pickle of
// protocol 2 has Python 2's names, even if Python 3 wrote it.
std::string_view modern_module(std::string_view module) {
  if (module == "__builtin__") return "builtins";
  if (module == "copy_reg") return "copyreg";
  return module;
}

std::string_view modern_name(std::string_view module, std::string_view name) {
  if (module != "__builtin__") return name;
  if (name == "long") return "int";
  return name == "unicode" ? "str" : name;
}

// Names are put into messages, and written to files in which a line feed ends a name.
void check_name(std::string_view part) {
  const bool is_plain =
      std::all_of(part.begin(), part.end(), [](unsigned char c) { return c >= ' ' && c != 0x7F; });
  if (part.empty() || !is_plain || !is_utf8(part)) {
    throw CorruptError("the pickle has a class name that is not a valid name");
  }
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

// A memory format is pickled as an attribute of any module that has imported torch:
// "torch._utils" "torch.channels_last".
const Global* find_memory_format(std::string_view name) {
  constexpr std::string_view kTorch = "torch.";
  if (!name.starts_with(kTorch)) return nullptr;
  const Global* global = find_global("torch", name.substr(kTorch.size()), {});
  return global != nullptr && is_torch_constant(*global) ? global : nullptr;
}

}  // namespace

Ref make_object(const Call& call) {
  Object object{.type = &call.global};
  if (!call.args.empty()) object.args.append(call.args, call.graph.refs());
  return call.graph.add(std::move(object));
}

std::shared_ptr<const Storage> StorageLoader::storage_for_dtype(
    std::shared_ptr<const Storage> storage, std::string_view /*key*/, DType /*dtype*/) {
  return storage;
}

std::shared_ptr<const Storage> StorageLoader::resolve_bits(
    const std::shared_ptr<const Storage>& storage, DType dtype, PendingBits pending) {
  auto& resolved = resolved_[{storage, dtype, pending.is_conj, pending.is_neg}];
  if (resolved == nullptr) resolved = with_bits_resolved(storage, dtype, pending);
  return resolved;
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
  name = modern_name(module, name);
  module = modern_module(module);
  if (const Global* global = find_global(module, name, more)) return graph.add(global);
  if (const Global* global = find_memory_format(name)) return graph.add(global);
  check_name(module);
  check_name(name);
  const bool has_empty_part =
      name.front() == '.' || name.back() == '.' || name.find("..") != std::string_view::npos;
  if (has_empty_part) throw CorruptError("the pickle has a class name that is not a valid name");
  return graph.add(ForeignName{module, name});
}

}  // namespace cairn::pickle

#include "format/pickle/globals/script_classes.h"

namespace cairn::pickle {
namespace {

// Bytes of a node in a hash table, with its slot.
constexpr std::uint64_t kTableBytes = 96;

// If the line is `before`, any text and `after`, sets `inside` to that text and returns true.
bool cut(std::string_view line, std::string_view before, std::string_view after,
         std::string_view& inside) {
  if (line.size() < before.size() + after.size()) return false;
  if (!line.starts_with(before) || !line.ends_with(after)) return false;
  inside = line.substr(before.size(), line.size() - before.size() - after.size());
  return true;
}

// Adds the names in a list like "a", "b.c", . PyTorch prints names as they are, without escapes.
void add_roles(std::string_view names, ScriptRole role, MemoryBudget& budget, ScriptClass& type) {
  while (true) {
    const std::size_t begin = names.find('"');
    if (begin == std::string_view::npos) return;
    const std::size_t end = names.find('"', begin + 1);
    if (end == std::string_view::npos) return;
    const std::string_view name = names.substr(begin + 1, end - begin - 1);
    budget.take(kTableBytes + MemoryBudget::allocation(name.size()));
    type.roles.emplace(name, role);
    names.remove_prefix(end + 1);
  }
}

}  // namespace

// Parses lines like these:
//   class LSTM(Module):
//     __parameters__ = ["weight_ih_l0", ]
//     __buffers__ = []
// Lines of functions are indented further, and texts in them hold no line feeds.
void add_script_classes(std::string_view module, std::string_view code, MemoryBudget& budget,
                        ScriptClasses& classes) {
  ScriptClass* type = nullptr;
  while (!code.empty()) {
    const std::string_view line = code.substr(0, code.find('\n'));
    code.remove_prefix(std::min(line.size() + 1, code.size()));
    std::string_view inside;
    if (cut(line, "class ", ":", inside)) {
      const std::string_view name = inside.substr(0, inside.find('('));
      std::string full = std::string(module) + "." + std::string(name);
      budget.take(kTableBytes + sizeof(ScriptClass) + MemoryBudget::allocation(full.size()));
      type = &classes[std::move(full)];
      type->is_module = inside.substr(name.size()) == "(Module)";
    } else if (type != nullptr && cut(line, "  __parameters__ = [", "]", inside)) {
      add_roles(inside, ScriptRole::kParameter, budget, *type);
    } else if (type != nullptr && cut(line, "  __buffers__ = [", "]", inside)) {
      type->lists_buffers = true;
      add_roles(inside, ScriptRole::kBuffer, budget, *type);
    }
  }
}

}  // namespace cairn::pickle

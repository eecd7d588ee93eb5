// Finds out which attributes of TorchScript's modules are parameters and buffers. Only the code
// says this, and nothing else is read from the code. docs/formats/torchscript.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/hash/seeded_hash.h"
#include "io/memory/memory_budget.h"

namespace cairn::pickle {

enum class ScriptRole : std::uint8_t { kParameter, kBuffer };

struct ScriptClass {
  bool is_module = false;
  bool lists_buffers = false;  // since PyTorch 1.7
  std::unordered_map<std::string, ScriptRole, TextHash> roles = {};
};

// The keys are qualified names: "__torch__.torch.nn.modules.rnn.LSTM".
using ScriptClasses = std::unordered_map<std::string, ScriptClass, TextHash>;

// Adds the classes that `code` defines. `code` is the text of the record code/.../NAME.py, whose
// module name is `module`. Charges `budget` for the memory of what is added. Text that is not code
// as PyTorch prints it defines nothing.
void add_script_classes(std::string_view module, std::string_view code, MemoryBudget& budget,
                        ScriptClasses& classes);

}  // namespace cairn::pickle

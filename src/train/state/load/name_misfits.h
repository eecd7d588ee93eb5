// Texts about names that only the model has, or only the checkpoint.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cairn/train/state_dict.h"

namespace cairn {

// Arguments for rename_weights().
struct Renaming {
  std::string from;
  std::string to;
  std::size_t fits = 0;  // How many missing names fit after the renaming.
};

// Finds the renaming after which most names fit: at least three quarters of the missing names, or
// of the unexpected ones. It removes a wrapper that torch.compile(), FSDP or activation
// checkpointing puts into names, or replaces one prefix with another. nullopt if there is none.
std::optional<Renaming> find_renaming(const IncompatibleKeys& keys);

// "missing names: ...", "unexpected names: ...", and the renaming that helps: a line for each that
// is not empty.
std::vector<std::string> list_misfits(const IncompatibleKeys& keys);

// As list_misfits(), in short: for a load that goes on without these names. Empty if all names fit.
std::vector<std::string> summarize_misfits(const IncompatibleKeys& keys);

}  // namespace cairn

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
  std::size_t fits = 0;  // so many missing names are there then
};

// The renaming after which most names fit: at least three quarters of the missing names, or of the
// unexpected ones. Wrappers that torch.compile(), FSDP and activation checkpointing put into names,
// or one prefix in place of another. nullopt when there is none.
std::optional<Renaming> find_renaming(const IncompatibleKeys& keys);

// "missing names: ...", "unexpected names: ...", and the renaming that helps: a line for each that
// is not empty.
std::vector<std::string> list_misfits(const IncompatibleKeys& keys);

// The same in short, for a load that goes on without them. Empty when all names fit.
std::vector<std::string> summarize_misfits(const IncompatibleKeys& keys);

}  // namespace cairn

// The keys of callbacks and schedulers in a checkpoint.
#pragma once

#include <string>
#include <vector>

namespace cairn {

// Composer keys state by class name, so of two savers only the last one's state is kept. Here the
// first object has the plain name, and the others are "Name-1", "Name-2", in order. Composer's
// files have only the plain name.
std::vector<std::string> entry_names(const std::vector<std::string>& class_names);

}  // namespace cairn

// The classes that a `.metadata` file may name in addition to those of any pickle.
#pragma once

#include <span>

#include "format/pickle/globals/globals.h"

namespace cairn::dcp {

std::span<const pickle::Global> metadata_classes();

}  // namespace cairn::dcp

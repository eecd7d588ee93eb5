// BatchKey: where a tensor is in a batch (composer/core/data_spec.py, batch_get).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// A position, counted from 0, or a name. Composer's pairs of functions are no keys here.
using BatchKey = std::variant<std::int64_t, std::string>;

}  // namespace cairn

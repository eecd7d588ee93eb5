// The dtypes in which the units of a sharded module compute and send.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "cairn/dist/fsdp_config.h"

namespace cairn::dist {

struct UnitDtypes {
  std::optional<at::ScalarType> compute = std::nullopt;  // Default: the parameters' own.
  std::optional<at::ScalarType> reduce = std::nullopt;   // Default: as `compute`.
};

// The dtypes that FSDPConfig::mixed_precision names.
UnitDtypes unit_dtypes(const FSDPConfig& config);

}  // namespace cairn::dist

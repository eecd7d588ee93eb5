// What the units of a sharded module compute and send in.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "cairn/dist/fsdp_config.h"

namespace cairn::dist {

struct UnitDtypes {
  std::optional<at::ScalarType> compute = std::nullopt;  // default: as the parameters are
  std::optional<at::ScalarType> reduce = std::nullopt;   // default: as they compute
};

// What FSDPConfig::mixed_precision says.
UnitDtypes unit_dtypes(const FSDPConfig& config);

}  // namespace cairn::dist

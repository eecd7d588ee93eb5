#include "loggers/wandb/run_writer.h"

#include <cmath>

#include "core/text/json.h"
#include "value/plain_json.h"

namespace cairn::wandb {

Json json_of(const Value& value) {
  if (value.kind() == Kind::kFloat && !std::isfinite(value.as_float())) {
    const double number = value.as_float();
    if (std::isnan(number)) return "NaN";
    return number > 0 ? "Infinity" : "-Infinity";
  }
  return plain_json(value);
}

}  // namespace cairn::wandb

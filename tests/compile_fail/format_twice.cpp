// Formats a formatted name again, which would take the braces in a run's name for variables.
#include "cairn/checkpoint/names.h"

std::string format_twice(const cairn::FormatVariables& dist) {
  const std::string folder = cairn::strict_format("ck/{run_name}", dist);
  return cairn::strict_format(folder, dist);
}

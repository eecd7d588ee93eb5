// A name that was formatted, formatted again: the braces of a run's name would become variables.
#include "cairn/checkpoint/names.h"

std::string format_twice(const cairn::FormatVariables& dist) {
  const std::string folder = cairn::strict_format("ck/{run_name}", dist);
  return cairn::strict_format(folder, dist);
}

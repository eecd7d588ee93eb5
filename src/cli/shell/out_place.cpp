#include "cli/shell/out_place.h"

#include "cairn/error.h"

#include "core/printable.h"
#include "io/uri.h"

namespace cairn::cli {

void check_stays(const std::string& place) {
  if (split_uri(place).scheme != "memory") return;
  throw UsageError(printable_line(place) +
                   ": memory:// is the memory of this program, and ends with it: nothing was "
                   "written. Name a file, a folder, or a place of a server (s3://bucket/name)");
}

}  // namespace cairn::cli

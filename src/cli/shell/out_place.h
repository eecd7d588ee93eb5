// Where the tool may write.
#pragma once

#include <string>

namespace cairn::cli {

// UsageError when what is written to `place` ends with the tool: memory://.
void check_stays(const std::string& place);

}  // namespace cairn::cli

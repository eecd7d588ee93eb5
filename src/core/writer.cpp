#include "core/writer.h"

namespace cairn {

const char* const kWriter = "cairn " CAIRN_VERSION;

}  // namespace cairn

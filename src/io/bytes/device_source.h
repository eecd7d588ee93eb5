// Memory that is not the host's.
#pragma once

#include "cairn/byte_source.h"

namespace cairn {

// A source of which pieces cost what they take, whatever their size: nobody needs room on the host
// for a whole storage to read it.
class DeviceSource : public ByteSource {};

}  // namespace cairn

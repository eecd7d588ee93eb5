// The stores that need a network: what of them is in this build.
#pragma once

#include <map>
#include <string>

#include "cairn/storage/stores.h"

namespace cairn {

// By scheme. In a build without them (CAIRN_BUILD_NET=OFF) the same schemes, with factories that
// throw UnsupportedError and say so.
std::map<std::string, ObjectStoreFactory> network_stores();

}  // namespace cairn

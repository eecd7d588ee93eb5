// SHA-256 of two things at once. A processor with instructions for it waits for each, as the next
// needs its result: of two streams it does one while the other waits, in about the time of one.
#pragma once

#include <array>

#include "net/digest.h"

namespace cairn {

bool has_sha256_pair();

// As sha256() of each. Their sizes may differ: what is only in one is hashed by itself.
std::array<Sha256, 2> sha256_pair(ByteView a, ByteView b);

}  // namespace cairn

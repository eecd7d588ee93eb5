// Attacks on the memory of this very process: the calls of libc that give memory are interposed, so
// that `operator new`, the codecs' contexts and cairn's own mappings can all be made to fail.
// Unarmed, everything is passed on.
#pragma once

#include <cstdint>

namespace cairn::attack {

// The allocations that are counted.
enum class Memory : std::uint8_t {
  kAll,  // every malloc(), and every mapping that is made outside libc
  kOwn,  // `operator new`, called by this program rather than by a library, and mappings as above
};

// Starts to count. The allocation with the number `at`, counted from 1, fails; none with 0.
void arm_memory(std::uint64_t at, Memory which = Memory::kAll);
// Allocations since arm_memory(). Everything is passed on afterwards.
std::uint64_t disarm_memory();

}  // namespace cairn::attack

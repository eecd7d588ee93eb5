// Attacks the memory of its own process. It interposes the calls of libc that allocate memory. So
// `operator new`, the codecs' contexts and cairn's own mappings can all be made to fail. Before
// arm_memory() and after disarm_memory() it passes every call on.
#pragma once

#include <cstdint>

namespace cairn::attack {

// The allocations that are counted.
enum class Memory : std::uint8_t {
  kAll,  // every malloc(), and every mapping made outside libc
  kOwn,  // `operator new` called by this program, not by a library; mappings as above
};

// Starts to count. The allocation with number `at`, counted from 1, fails. With 0, none fails.
void arm_memory(std::uint64_t at, Memory which = Memory::kAll);
// Returns the number of allocations since arm_memory(). After it, every call is passed on.
std::uint64_t disarm_memory();

}  // namespace cairn::attack

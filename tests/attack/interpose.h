// Attacks on the file calls of this very process: the calls of libc itself are interposed, so that
// nothing between a Trainer and the kernel can be forgotten. Linked as a shared library, whose
// functions come before libc's.
//
// Only what concerns one folder is counted and attacked: paths below it, and descriptors opened
// there. Unarmed, everything is passed on.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::attack {

enum class Deed : std::uint8_t {
  kNothing,      // only counts
  kKill,         // SIGKILL in place of the call; a write does half of its work first
  kFail,         // the call fails with `error`; a write does half of its work first
  kFailForever,  // the same for this call and all after it
  kSwap,         // before the call a link takes the place of a folder: Plan::swap
};

// Which calls count.
enum class Calls : std::uint8_t {
  kAll,
  kReading,   // that look for, open, list, map and read, and none that change anything
  kChanging,  // the others
};

// An attack by a user who may write into the parent of `folder`: renames `folder` to `aside` and
// gives its name to a link to `target`.
struct Swap {
  std::string folder = {};
  std::string aside = {};
  std::string target = {};

  // False when it cannot be done.
  bool make() const;
  bool take_back() const;
};

struct Plan {
  std::string folder;    // absolute
  std::uint64_t at = 0;  // the number of the call that is attacked, counted from 1
  Deed deed = Deed::kNothing;
  int error = 0;
  Calls calls = Calls::kAll;
  Swap swap = {};
  int openat2_error = 0;  // what every openat2() says; 0: what the kernel does
};

// Starts to count. Not while other threads are in a file call.
void arm(const Plan& plan);
// Calls since arm(). Everything is passed on afterwards.
std::uint64_t disarm();

}  // namespace cairn::attack

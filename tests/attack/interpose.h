// Attacks the file calls of its own process. It interposes the calls of libc, so that it covers
// everything between a Trainer and the kernel. It is linked as a shared library, whose functions
// come before libc's.
//
// It counts and attacks only calls for one folder: with paths below that folder, and with
// descriptors opened there. Before arm() and after disarm() it passes every call on.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::attack {

enum class AttackKind : std::uint8_t {
  kNothing,      // only counts
  kKill,         // SIGKILL in place of the call; a write does half of its work first
  kFail,         // the call fails with `error`; a write does half of its work first
  kFailForever,  // as kFail, for this call and all later ones
  kSwap,         // before the call, a link replaces a folder: Plan::swap
};

// The calls that are counted.
enum class Calls : std::uint8_t {
  kAll,
  kReading,   // calls that look up, open, list, map or read, and change nothing
  kChanging,  // all other counted calls
};

// An attack by a user who may write into the parent of `folder`. Renames `folder` to `aside`, and
// creates a link to `target` under its old name.
struct Swap {
  std::string folder = {};
  std::string aside = {};
  std::string target = {};

  // Return false if the swap cannot be made or undone.
  bool make() const;
  bool take_back() const;
};

struct Plan {
  std::string folder;    // absolute
  std::uint64_t at = 0;  // number of the attacked call, counted from 1
  AttackKind deed = AttackKind::kNothing;
  int error = 0;
  Calls calls = Calls::kAll;
  Swap swap = {};
  int openat2_error = 0;  // errno of every openat2(); 0: openat2() works as in the kernel
};

// Starts to count. Do not call arm() while other threads are in a file call.
void arm(const Plan& plan);
// Returns the number of calls since arm(). After it, every call is passed on.
std::uint64_t disarm();

}  // namespace cairn::attack

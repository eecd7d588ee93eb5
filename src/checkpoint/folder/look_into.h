// Looks into a file that is about to be written over: whose checkpoint it is, if it is one.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct LookedInto {
  std::optional<CheckpointInfo> info;  // what the checkpoint says of itself
  std::string problem;                 // or why nobody can go on from it
  // With a problem: the disk does not give it, or not all of it.
  std::exception_ptr unreadable = nullptr;
};

// A problem is that it is damaged, or none, or gone, or that the disk does not give all of it. That
// it cannot be read this time is an error like any other, and is thrown: nobody knows what it is.
LookedInto look_into(const std::shared_ptr<ObjectStore>& store, const std::string& path,
                     Verify how);

}  // namespace cairn

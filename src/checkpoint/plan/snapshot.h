// Making a state tree stable: the bytes of its tensors copied aside, so that training may go on
// changing the originals.
//
// The copies lie in one arena, which is used again by the next snapshot once nothing points into it
// any more: copying into memory that was touched before is ten times as fast as into fresh memory.
#pragma once

#include <cstdint>
#include <memory>

#include "cairn/value.h"

namespace cairn {

class Snapshotter {
 public:
  Snapshotter();
  ~Snapshotter();  // memory that taken Values still use lives on with them
  Snapshotter(const Snapshotter&) = delete;
  Snapshotter& operator=(const Snapshotter&) = delete;

  // `value` with the bytes of every storage copied, each storage once: what shared a storage, or a
  // container, shares the copy. Nothing but tensors is copied; other values are immutable.
  // The arena belongs to the returned Value and its copies, and grows when it is too small.
  // One thread at a time; the returned Values may be read and dropped in any thread.
  Value take(const Value& value);

  // Memory held in arenas, in use and spare: for tests.
  std::uint64_t arena_bytes() const;

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace cairn

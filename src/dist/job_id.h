// Makes sure that a rank joins its own job: another job may listen at the port, and wait for a rank
// of its own.
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "checkpoint/names/launch.h"

namespace cairn::dist {

// Returns the id of the job, the same on all ranks: the launcher's, or one that rank 0 makes if the
// launcher gives none. Rank 0 writes it into `door`; the others wait for it. Throws DistError if
// rank 0 writes nothing within `timeout`, or belongs to another job. Throws UsageError if rank 0
// was given another number of ranks. A rank that throws these has written nothing. Also throws
// c10d's exceptions.
std::string agree_on_job(c10d::Store& door, const Launch& launch,
                         std::chrono::milliseconds timeout);

}  // namespace cairn::dist

// Reads the position in training from the name of a checkpoint whose format is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn {

struct NamePosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  // The name with "#" in place of the counters and the rank: the same for all names of one run and
  // format.
  std::string form = {};
};

// Example: "run-ep2-ba15-rank0.pt" gives 2, 15 and "run-ep#-ba#-rank#.pt". nullopt unless the name
// contains "ep<number>-ba<number>", as the Trainer's default names do.
std::optional<NamePosition> position_in_name(const std::string& name);

}  // namespace cairn

// Where a run keeps what commands show of it.
#pragma once

#include <string>

namespace cairn::cli {

struct RunPlaces {
  std::string run;               // a log, or a folder with a log, checkpoints, or both
  std::string checkpoints = {};  // the folder of its checkpoints; empty: `run`, if it is a folder
};

}  // namespace cairn::cli

// Where the checkpoints of a saver may lie: in its folder, and where loggers uploaded them to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

class Logger;
struct CheckpointSaverOptions;

struct SearchPlace {
  std::shared_ptr<ObjectStore> store;
  std::string folder;           // formatted
  std::string filename;         // a format, of names in the folder
  std::string latest_filename;  // the same; empty: no pointer
  std::string run_name;
};

// The saver's folder first, then those of the loggers in their order.
std::vector<SearchPlace> search_places(const CheckpointSaverOptions& saver,
                                       const std::string& run_name, const Logger& logger);

}  // namespace cairn

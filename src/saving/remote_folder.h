// Where the checkpoints of a saver on this machine are kept by a logger that keeps files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"

namespace cairn {

class LoggerDestination;
struct CheckpointSaverOptions;

struct RemoteFolder {
  std::shared_ptr<ObjectStore> store;
  std::string folder;          // common to the checkpoints and the pointer
  NameFormat filename;         // of the checkpoints' names in the folder
  NameFormat latest_filename;  // of the pointer's name there; empty: no pointer
};

// nullopt when the destination does not say where. `saver` has a remote_file_name.
std::optional<RemoteFolder> remote_folder_of(const LoggerDestination& destination,
                                             const CheckpointSaverOptions& saver,
                                             const std::string& run_name);

}  // namespace cairn

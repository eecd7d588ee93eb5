// The folder in which a logger that keeps files keeps the checkpoints of a saver on this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/checkpoint/names.h"
#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {
class LoggerDestination;
struct CheckpointSaverOptions;
}  // namespace cairn

namespace cairn {

struct RemoteFolder {
  std::shared_ptr<ObjectStore> store;
  std::string folder;          // Contains the checkpoints and the pointer.
  NameFormat filename;         // Names of checkpoints in the folder.
  NameFormat latest_filename;  // Name of the pointer there; empty: no pointer.
};

// nullopt if the destination does not say where it keeps files. `saver` must have a
// remote_file_name.
std::optional<RemoteFolder> remote_folder_of(const LoggerDestination& destination,
                                             const CheckpointSaverOptions& saver,
                                             const std::string& run_name);

}  // namespace cairn

// A file of TensorBoard's events: records of TFRecord, each a message of event.proto.
//
//   record = length (uint64)  masked CRC-32C of the 8 bytes of the length (uint32)
//            data             masked CRC-32C of the data (uint32)
//
// TensorBoard reads the files of a folder in the order of their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/protobuf.h"
#include "io/files/append_file.h"

namespace cairn {

// A place in the files of one folder and suffix.
struct EventPosition {
  std::string file = {};  // its name in the folder; empty: before all files
  std::uint64_t bytes = 0;
};

class EventFile {
 public:
  // A new file in `folder`, which may be missing, with a name after all others there. `seconds` is
  // the time since 1970. Throws StorageError.
  EventFile(const std::string& folder, const std::string& suffix, double seconds);

  // Appends an event, which is kept in memory until flush(), or until there is 1 MiB.
  void write(const ProtoMessage& event);
  void flush();
  const std::string& path() const { return path_; }
  // After a flush.
  EventPosition position() const;

 private:
  std::string path_;
  AppendFile file_;
  std::uint64_t bytes_ = 0;  // written to the file
  std::string waiting_;
};

// Whether EventFile may have given this name to a file with this suffix.
bool is_event_file(const std::string& name, const std::string& suffix);

// Removes what the files with this suffix have after `position`, up to the file `kept_from`: a
// name, or empty for none. Does nothing if the position's file is not in the folder. Throws
// StorageError.
void cut_event_files(const std::string& folder, const std::string& suffix,
                     const EventPosition& position, const std::string& kept_from);

}  // namespace cairn

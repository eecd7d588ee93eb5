// Checkpoints of a CheckpointSaver's local folder on their way to where loggers keep files.
//
//  1. When a save begins, its names there are made, of that moment's counters.
//  2. When the file is durable here it is handed to every destination that keeps files. Each opens
//     it at once, so that it may be removed, or replaced by the next save, from then on.
//  3. A destination moves its pointer, and removes what is superfluous there, behind the upload.
//  4. When all destinations have it, it is reported: a saver that keeps nothing here removes it
//     then.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cairn {

class Logger;

class SaverUploads {
 public:
  struct Names {
    std::string file;
    std::string latest;  // empty: no pointer
  };

  // `keep`: how many are to stay at a destination, of those that this object handed over; -1: all.
  explicit SaverUploads(int keep);

  static bool has_destination(const Logger& logger);

  // Step 1.
  void begin(const std::string& path, Names names);
  // Step 2. Nothing for a path that was not begun. Throws what a destination throws.
  void hand_over(const std::string& path, Logger& logger, bool overwrite);
  // Step 4: paths, each once. Not that of a file in whose place another one is being saved.
  std::vector<std::string> take_uploaded();

 private:
  struct Arrivals;

  const int keep_;
  std::map<std::string, Names> begun_;   // by path
  std::deque<std::string> handed_over_;  // remote names, oldest first
  std::shared_ptr<Arrivals> arrivals_;   // reported by the destinations' threads
};

}  // namespace cairn

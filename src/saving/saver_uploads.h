// Checkpoints of a CheckpointSaver's local folder on their way to where loggers keep files.
//
//  1. When a save begins, its names there are made, of that moment's counters.
//  2. When the file is durable here it is handed to every destination that keeps files. Each opens
//     it at once, so that it may be removed, or replaced by the next save, from then on.
//  3. A destination moves its pointer, and removes what is superfluous there, behind the upload.
//  4. When all destinations have it, it is reported: a saver that keeps nothing here removes it
//     then. Saves are numbered, because several may have one path ("ckpt.pt"): the arrival of one
//     says nothing of a newer one, whose file is not what arrived. While a save of the path is
//     under way nobody knows whose file is there, and the report waits.
//  5. A destination drops what still waits there when a newer save with the same name arrives. When
//     no destination has a save any more, and one of its remote name was handed over since, it is
//     reported as replaced: its file here is in nobody's interest either.
//  6. A save that failed before the next one is handed over is not counted among those to keep, and
//     what was to be removed behind it stays one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/time.h"

#include "storage/publish/replace.h"

namespace cairn {

class Logger;

class SaverUploads {
 public:
  struct Names {
    std::string file;
    std::string latest = {};  // empty: no pointer
    // What `file` was made of, as FileUpload says.
    NameFormat format = {};
    Timestamp timestamp = {};
  };

  // `keep`: how many are to stay at a destination, of those that this object handed over; -1: all.
  explicit SaverUploads(int keep);

  static bool has_destination(const Logger& logger);
  // Call it before anything is loaded. `latest` may be empty.
  static void look(const NameFormat& file, const NameFormat& latest, const Logger& logger);

  struct Uploaded {
    std::string path;
    bool is_there = true;      // at `path`; false: a newer save has it
    bool is_replaced = false;  // step 5: it was uploaded nowhere, or not everywhere
  };

  // Step 1.
  void begin(const std::string& path, Names names);
  // No save is under way: those that were begun and are not among `durable` have failed.
  void drop_failed(const std::vector<std::string>& durable);
  // Step 2. Nothing for a path that was not begun. Throws what a
  // destination throws, when all others have it.
  void hand_over(const std::string& path, Logger& logger, Replace replace);
  // Steps 4 and 5: each save once.
  std::vector<Uploaded> take_uploaded();
  // Whether a destination has given up what was handed over last, and nothing took its place.
  bool has_newest_failed() const;
  // How many saves and names it holds: what is on its way, and what is to be removed one day.
  std::size_t size() const;

 private:
  struct Arrivals;
  class OnItsWay;
  struct UploadedSave {
    std::string name;  // there
    std::uint64_t number;
    bool is_missing = false;  // at one destination at least
  };

  // Step 6.
  void learn_failed();
  // What is to be removed behind a save of that name and number.
  std::vector<UploadedSave> superfluous_behind(const std::string& name, std::uint64_t number);

  int keep_;
  std::map<std::string, Names> begun_;  // by path
  std::uint64_t count_ = 0;             // of those that were handed over
  std::deque<UploadedSave> kept_;       // oldest first, when keep_ is a number
  std::shared_ptr<Arrivals> arrivals_;  // reported by the destinations' threads
};

}  // namespace cairn

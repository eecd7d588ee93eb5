// Uploads a CheckpointSaver's local checkpoints to the loggers that keep files.
//
//  1. When a save begins, its remote names are made from the counters of that moment.
//  2. When the local file is durable, it is handed to every destination that keeps files. Each
//     opens it at once, so afterwards it may be removed, or replaced by the next save.
//  3. After the upload, a destination moves its pointer, and removes its superfluous files.
//  4. When all destinations have the file, this is reported. A saver that keeps no files on this
//     machine then removes the local file. Saves are numbered, because several may have one path
//     ("ckpt.pt"): if one save has arrived, a newer save at the same path may not have. While a
//     save of the path is pending, it is unknown which save the file at the path belongs to, and
//     the report waits.
//  5. A destination drops a waiting upload when a newer save with the same name arrives. A save
//     that no destination holds any more is reported as replaced if a save with its remote name was
//     handed over later. The local file of that save is no longer needed either.
//  6. A save that failed before the next one is handed over does not count as one of those to keep.
//     The files that were to be removed after the failed save stay among those to keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/keep_best.h"
#include "cairn/checkpoint/names.h"
#include "cairn/export.h"
#include "cairn/time.h"

#include "storage/publish/replace.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
}  // namespace cairn

namespace cairn {

class SaverUploads {
 public:
  struct Names {
    std::string file;
    std::string latest = {};  // Empty: no pointer.
    // The format from which `file` was made, as in FileUpload.
    NameFormat format = {};
    Timestamp timestamp = {};
    std::optional<double> metric = std::nullopt;  // Of keep_best.
  };

  // `keep`: how many of the handed-over saves a destination keeps; -1: all. `best`: those that it
  // keeps beside them; its mode is not kAuto.
  explicit SaverUploads(int keep, std::optional<KeepBest> best = std::nullopt);

  static bool has_destination(const Logger& logger);
  // Call it before anything is loaded. `latest` may be empty.
  static void look(const NameFormat& file, const NameFormat& latest, const Logger& logger);

  struct Uploaded {
    std::string path;
    bool is_there = true;      // At `path`; false: a newer save is there.
    bool is_replaced = false;  // See step 5: not uploaded to all destinations, or to none.
  };

  // Step 1.
  void begin(const std::string& path, Names names);
  // The metric of saves at this moment was computed only after they began.
  void note_metric(const Timestamp& now, double metric);
  // No save is pending: begun saves that are not among `durable` have failed.
  void drop_failed(const std::vector<std::string>& durable);
  // Step 2. Does nothing for a path that was not begun. If a destination throws, the other
  // destinations still get the file; then hand_over() throws the first error.
  void hand_over(const std::string& path, Logger& logger, Replace replace);
  // Steps 4 and 5. Each save is returned once.
  std::vector<Uploaded> take_uploaded();
  // Whether a destination gave up the save that was handed over last, and no other save replaced
  // it.
  bool has_newest_failed() const;
  // How many saves and names it holds: pending uploads, and files to be removed later.
  std::size_t size() const;

 private:
  class PendingUpload;
  struct Arrivals;
  struct UploadedSave {
    std::string name;  // The remote name.
    std::uint64_t number;
    Timestamp timestamp = {};
    std::optional<double> metric = std::nullopt;
    bool is_missing = false;  // Missing at one destination at least.
  };

  // Step 6.
  void note_failed_uploads();
  // The files to be removed after this save, which is the newest.
  std::vector<UploadedSave> superfluous_after(UploadedSave newest);
  // For each of kept_, whether it stays because of its metric.
  std::vector<bool> kept_by_metric() const;

  int keep_;
  std::optional<KeepBest> best_;
  std::map<std::string, Names> begun_;  // By path.
  std::uint64_t count_ = 0;             // Number of saves handed over.
  std::deque<UploadedSave> kept_;       // Oldest first; used if keep_ is a number.
  std::shared_ptr<Arrivals> arrivals_;  // Updated by the destinations' threads.
};

}  // namespace cairn

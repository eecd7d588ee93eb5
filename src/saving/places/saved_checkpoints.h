// The checkpoints that a CheckpointSaver has saved. This list is the saver's state in a checkpoint,
// and rotation counts its entries. With keep_best, it also holds the metric of each, by which some
// stay although they are old.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint/keep_best.h"
#include "cairn/time.h"
#include "cairn/value.h"

namespace cairn {

class SavedCheckpoints {
 public:
  using Predicate = std::function<bool(const std::string& path)>;

  // `best`: which to keep beside the newest ones; its mode is not kAuto.
  explicit SavedCheckpoints(std::optional<KeepBest> best = std::nullopt) : best_(std::move(best)) {}

  // A save of `path` begins. A path that is saved again becomes the newest. `metric`: its value at
  // this moment, if it is known already.
  void begin(const std::string& path, const Timestamp& timestamp,
             std::optional<double> metric = std::nullopt);
  // The metric was computed at this moment. The save that was begun last gets it, if it is of this
  // moment.
  void note_metric(const Timestamp& now, double metric);
  // The save of `path` is durable.
  void finish(const std::string& path);
  void remove(const std::string& path);
  // The file at `path` now belongs to another run. Returns false if that was known already.
  bool disown(const std::string& path);
  // The begun save of `path` is left out. An older checkpoint at the path counts again.
  void skip(const std::string& path);
  // No save is pending any more. Saves that were begun and not finished have failed. Older
  // checkpoints at their paths count again.
  void drop_unfinished();

  // To be called when the folder is known. `find` is called once for each path from a loaded state,
  // the newest first. `find` returns the path at which this saver owns the checkpoint and may
  // remove it, or nullopt if another run owns it. Paths for which `exists` is false are forgotten.
  using Find = std::function<std::optional<std::string>(const std::string& path,
                                                        const Timestamp& timestamp)>;
  void adopt(const Find& find, const Predicate& exists);

  // Whether this process saved `path`, at or before `now`.
  bool is_saved_here(const std::string& path, const Timestamp& now) const;
  // Whether this process saved `path` at a later batch than `now`.
  bool is_saved_after(const std::string& path, const Timestamp& now) const;

  // The oldest own paths: all except the newest `keep` and the best ones. A pending save may still
  // fail. So, except for the newest, it neither takes the place of a better one nor is superfluous
  // while it might be one of the best.
  std::vector<std::string> superfluous(int keep) const;
  // Returns the ones among `paths` that are known only from a loaded state, each with the time of
  // its save in that state.
  std::map<std::string, Timestamp> loaded_among(const std::vector<std::string>& paths) const;
  // Own and finished checkpoints, oldest first.
  std::vector<std::pair<std::string, Timestamp>> finished() const;
  std::vector<std::string> paths() const;  // As finished(), without timestamps.
  // The best ones of finished(), the best first. Empty without keep_best.
  std::vector<std::pair<std::string, double>> best() const;
  // The checkpoint that was begun last, finished or not.
  struct Newest {
    std::string path;
    Timestamp timestamp;
    std::optional<double> metric;
  };
  std::optional<Newest> newest() const;

  // Composer's form: {"all_saved_checkpoints_to_timestamp": [(path, timestamp), ...]}. Includes
  // pending saves, so that a checkpoint names itself. With keep_best, also {"keep_best":
  // {"metric": name, "values": [(path, float), ...]}}, which Composer passes over.
  Value state_dict() const;
  // Replaces the entries loaded earlier, and keeps those that this process saved. Values of
  // another metric than keep_best's are not used. Throws MismatchError, and changes nothing, if
  // `state` does not have that form.
  void load_state_dict(const Value& state);

 private:
  struct Entry {
    std::string path;
    Timestamp timestamp;
    std::optional<double> metric = std::nullopt;
    bool is_loaded = false;
    bool is_examined = false;  // adopt() has asked which run owns the checkpoint.
    bool is_own = true;
    bool is_finished = false;
  };
  void bring_back(const std::function<bool(const Entry&)>& which);

  std::optional<KeepBest> best_;
  std::vector<Entry> entries_;   // Oldest first.
  std::vector<Entry> replaced_;  // Finished, while a new save of the same path is pending.
};

}  // namespace cairn

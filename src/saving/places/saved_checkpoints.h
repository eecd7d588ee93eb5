// Which checkpoints a CheckpointSaver has saved: its state in a checkpoint, and what rotation
// counts.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/time.h"
#include "cairn/value.h"

namespace cairn {

class SavedCheckpoints {
 public:
  using Predicate = std::function<bool(const std::string& path)>;

  // A save of `path` begins. A path that is saved again becomes the newest.
  void begin(const std::string& path, const Timestamp& timestamp);
  // It is durable.
  void finish(const std::string& path);
  void remove(const std::string& path);
  // What has that name is somebody else's by now. False when it was before.
  bool disown(const std::string& path);
  // The save of that path that was begun is left out. An older checkpoint of the path counts again.
  void skip(const std::string& path);
  // Nothing is under way any more: what was begun and not finished has failed, and what had its
  // path before has it still.
  void drop_unfinished();

  // Once the folder is known: `find` is asked once for each path that came from a loaded state, the
  // newest first. It gives the path at which this saver owns it, and may remove it; nullopt for one
  // that is somebody else's. Paths for which `exists` is false are forgotten.
  using Find = std::function<std::optional<std::string>(const std::string& path,
                                                        const Timestamp& timestamp)>;
  void adopt(const Find& find, const Predicate& exists);

  // Whether this process saved `path`, at or before `now`.
  bool is_saved_here(const std::string& path, const Timestamp& now) const;
  // Whether this process saved `path` at a later batch than `now`.
  bool is_saved_after(const std::string& path, const Timestamp& now) const;

  // The oldest own paths, so many that `keep` are left.
  std::vector<std::string> superfluous(int keep) const;
  // Those of `paths` that are known from a loaded state alone, and when it says they were saved.
  std::map<std::string, Timestamp> loaded_among(const std::vector<std::string>& paths) const;
  // Own and finished, oldest first.
  std::vector<std::pair<std::string, Timestamp>> finished() const;
  std::vector<std::string> paths() const;  // the same, without the timestamps
  // The one that was begun last, finished or not.
  std::optional<std::pair<std::string, Timestamp>> newest() const;

  // Composer's: {"all_saved_checkpoints_to_timestamp": [(path, timestamp), ...]}, with those
  // that are under way: a checkpoint names itself.
  Value state_dict() const;
  // In place of what was loaded before; what this process saved stays. MismatchError, and nothing
  // is changed, for what is no such state.
  void load_state_dict(const Value& state);

 private:
  struct Entry {
    std::string path;
    Timestamp timestamp;
    bool is_loaded = false;
    bool is_examined = false;  // adopt() has asked whose it is
    bool is_own = true;
    bool is_finished = false;
  };
  void bring_back(const std::function<bool(const Entry&)>& which);

  std::vector<Entry> entries_;   // oldest first
  std::vector<Entry> replaced_;  // finished, and a save of the same path is under way
};

}  // namespace cairn

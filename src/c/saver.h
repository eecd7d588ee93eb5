// Saves a caller's trees in the background, and keeps the newest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"
#include "cairn/value.h"

#include "checkpoint/plan/save_pipeline.h"

namespace cairn {

struct StepSaverOptions {
  std::string folder = {};
  NameFormat filename = {};
  NameFormat latest = {};                              // empty: no link
  std::optional<std::string> run_name = std::nullopt;  // nullopt: the folder's last name
  std::size_t keep = 0;                                // 0: all
  bool overwrite = false;  // whether checkpoints may be replaced that were there before
};

// The checkpoints that count for `keep`: those that this saver wrote or, after resume(), found. A
// save that is under way counts, so that it takes the place of an older one when it is durable.
class KeptCheckpoints {
 public:
  void begin(const std::string& path);
  void finish(const std::string& path);
  void remove(const std::string& path);
  // No save is under way any more: forgets those that were begun and not finished.
  void drop_unfinished();
  // Checkpoints that another process wrote, oldest first.
  void adopt(const std::vector<std::string>& paths);

  bool knows(const std::string& path) const;
  bool is_adopted(const std::string& path) const;
  // All except the newest `keep`.
  std::vector<std::string> superfluous(std::size_t keep) const;

 private:
  struct Entry {
    std::string path;
    bool is_finished = false;
    bool is_adopted = false;
  };
  std::vector<Entry>::iterator find(const std::string& path);

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // oldest first
};

// Not thread-safe.
class StepSaver {
 public:
  // Throws UsageError for the options.
  explicit StepSaver(StepSaverOptions options);

  // Returns when the tensors are copied. Throws the error of an earlier save, once, and does not
  // save then. `name`: below the folder; empty: by the format. `step`: -1 if there is none.
  void save(const Value& value, const std::string& name, std::int64_t step);
  void wait();
  // Finds the newest good checkpoint. It is verified when it is read. If it turns out to be
  // damaged, call this again with `goes_on`, to pass over it as well. `how` needs an on_skip.
  std::optional<FoundCheckpoint> resume(const FindOptions& how, bool goes_on);

 private:
  template <class Call>
  void forget_failed_saves(const Call& call);
  Replace replace_of(const std::string& path);
  void check_is_not_link(const std::string& path, const std::string& link) const;
  std::string path_of(const NameFormat& name, const Timestamp& timestamp) const;
  CheckpointInfo info(const Value& value, std::int64_t step) const;
  void remove_superfluous(SaveJob& job) const;
  SaveJob job_of(const Value& value, const NameFormat& name, std::int64_t step);

  const StepSaverOptions options_;
  const std::shared_ptr<ObjectStore> store_;
  const std::string folder_;
  const std::string run_name_;
  bool has_resumed_ = false;
  std::vector<std::string> tried_;  // what resume() returned, and was damaged
  // Files that resume() found not to be good. A save that needs such a name puts the file aside.
  std::set<std::string> passed_over_;
  const std::shared_ptr<KeptCheckpoints> kept_ = std::make_shared<KeptCheckpoints>();
  SavePipeline pipeline_;
};

}  // namespace cairn

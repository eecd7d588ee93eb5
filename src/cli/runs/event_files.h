// Reads what a run has logged from TensorBoard's event files, for runs that have no FileLogger.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

#include "cli/runs/event.h"
#include "cli/runs/run_log_lines.h"
#include "core/hash/seeded_hash.h"

namespace cairn::cli {

// Whether TensorBoard would look for events in a file of that name.
bool is_event_file_name(std::string_view name);

// Describes a file, or the file that a link points at. nullopt: it is no file, or gone.
std::optional<ObjectInfo> file_info(ObjectStore& store, const std::string& folder,
                                    const ListedName& listed);

// The folders with event files: `folder` alone, if its entries have some, or else those directly in
// it. Looks into twenty of them at most, and into no checkpoint. Throws StorageError.
std::vector<std::string> event_folders(ObjectStore& store, const std::string& folder,
                                       const std::vector<ListedName>& entries);

// The starts of a run. Each hides what was logged before it from a step on. The first one does so,
// too: PyTorch's writers log a start only with `purge_step`. TensorBoard ignores the first one.
// A metric applies them only when it gets a point, so that many starts of a run with many metrics
// cost little.
class HidingStarts {
 public:
  void add(std::int64_t step);
  std::uint64_t count() const { return count_; }
  // The first step that is hidden by the starts after the first `seen`; nullopt: none is hidden.
  std::optional<std::int64_t> first_hidden(std::uint64_t seen) const;

 private:
  struct Start {
    std::uint64_t number = 0;
    std::int64_t step = 0;
  };
  std::uint64_t count_ = 0;
  std::vector<Start> starts_;  // without those that a later one makes needless; both fields ascend
};

// Reads the event files of one folder, in the order of their times. The files may still be written.
class EventFiles {
 public:
  // All files of `folder`, or only the one called `name`. If several ranks have files, those of
  // rank 0 count.
  EventFiles(std::shared_ptr<ObjectStore> store, std::string folder, std::string name = {});
  // A copy would add to the first one's log.
  EventFiles(EventFiles&&) = default;
  EventFiles& operator=(EventFiles&&) = default;

  // Adds to `log` what was written since the last call. It must be the same log each time, or the
  // one that it was moved to. If a file is shorter than before or gone, everything is read anew: a
  // run that resumes cuts off what was logged after its checkpoint. Returns whether the log
  // changed. Throws NotFoundError, StorageError. After an error the log is as good as before, or
  // has some records more, and the next call goes on from there.
  bool update(RunLog& log);
  // When something last wrote to a file, by the clock of the store.
  LogTime modified() const { return modified_; }

 private:
  // Files are sorted by the second in their name.
  using Key = std::pair<std::int64_t, std::string>;
  struct Progress {
    std::uint64_t size = 0;    // of the file when it was read
    std::uint64_t offset = 0;  // where its next record begins
    std::size_t passed_over = 0;
    std::string problem = {};  // about the first record that was passed over
    bool is_damaged = false;   // at `offset`
    std::optional<double> begin = std::nullopt;
    std::optional<std::size_t> span = std::nullopt;  // the index in RunLog::spans
  };
  struct Series {
    std::vector<MetricPoint>* points = nullptr;
    std::uint64_t seen_starts = 0;
  };

  using Found = std::map<Key, ObjectInfo>;
  Found find() const;
  bool is_anew(const Found& found) const;
  void read_new(const Found& found, RunLog& log);
  void read(const Key& key, Progress& progress, RunLog& log);
  void read_added(const Key& key, Progress& progress, RunLog& log);
  void add(const Key& key, Progress& progress, const LoggedEvent& event, RunLog& log);
  void add_scalar(std::string_view tag, const MetricPoint& point, bool is_late, RunLog& log);
  void add_start(std::int64_t step, RunLog& log);
  void add_time(const Key& key, Progress& progress, const LoggedEvent& event, RunLog& log);
  std::size_t span_of(const Key& key, const LoggedEvent& event, double begin, RunLog& log) const;
  void hide(Series& series) const;
  void sum_up(RunLog& log);

  std::shared_ptr<ObjectStore> store_;
  std::string folder_;
  std::string name_;
  std::map<Key, Progress> files_;
  LogTime modified_ = {};
  Key newest_;             // of the files that were read
  bool has_news_ = false;  // the log changed since sum_up()
  std::unordered_map<std::string, Series, TextHash> series_;
  HidingStarts starts_;
};

}  // namespace cairn::cli

#include "cli/serve/served_runs.h"

#include <algorithm>
#include <functional>
#include <ostream>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "cli/runs/find_runs.h"
#include "cli/runs/run_log_file.h"
#include "cli/runs/run_places.h"
#include "cli/runs/watched_run.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

// How long a listing counts of a far store, where it costs a request, and of a run that has ended.
constexpr auto kListingCounts = std::chrono::seconds(60);
constexpr std::size_t kMostStates = 100;  // below a run's folder

bool is_due(const std::optional<SteadyTime>& last, bool is_rare, SteadyTime now) {
  return !last || !is_rare || now - *last >= kListingCounts;
}

// Adds a text that is another one when a checkpoint in the folder has changed. Other files, such as
// logs, may change all the time.
void add_state(ObjectStore& store, const std::string& folder, std::size_t& folders,
               std::string& text) {
  const bool is_top = folders == 0;
  for (const ListedName& listed : list_all_if_any(store, folder)) {
    const auto info = info_of(store, folder, listed);
    if (!info) continue;
    const bool is_checkpoint = has_checkpoint_name(listed.name);
    const bool is_folder = info->type == ObjectInfo::Type::kFolder;
    if (!is_checkpoint && !is_folder && !listed.name.ends_with(".pin")) continue;
    text += listed.name + '\n';
    if (is_checkpoint) {
      text += std::to_string(info->size) + ' ' + info->version + ' ' +
              std::to_string(info->modified.time_since_epoch().count()) + '\n';
    } else if (is_top && is_folder && folders < kMostStates) {
      ++folders;
      std::size_t deeper = 1;
      add_state(store, join_path(folder, listed.name), deeper, text);
    }
  }
}

std::size_t state_of_folder(ObjectStore& store, const std::string& folder) {
  std::string text;
  std::size_t folders = 0;
  add_state(store, folder, folders, text);
  return std::hash<std::string>()(text);
}

// Whether a later look may find that it was only not readable just now.
bool has_doubts(const GatheredRun& run) {
  return std::ranges::any_of(run.folders, [](const GatheredFolder& folder) {
    return !folder.resume_problem.empty() ||
           std::ranges::any_of(folder.listed.listing.checkpoints,
                               [](const ListedCheckpoint& listed) {
                                 return listed.condition == Condition::kRefused;
                               });
  });
}

// Answers go nowhere, and no bar is drawn.
class NoConsole {
 public:
  const Console& console() const { return console_; }

 private:
  std::ostream nowhere_{nullptr};
  Console console_{.out = nowhere_, .err = nowhere_, .quiet = true};
};

}  // namespace

class ServedRuns::Run {
 public:
  Run(std::string name, std::string place, std::shared_ptr<ObjectStore> store)
      : store_(std::move(store)), place_(std::move(place)) {
    gathered_.name = std::move(name);
  }

  // Returns whether something is another now.
  bool refresh(bool is_shown, SteadyTime now) {
    const std::string before = status_.problem;
    bool has_changed = false;
    try {
      if (is_let_go()) {
        if (!is_shown && is_as_it_was(now)) return false;
        let_go_.reset();
      }
      has_changed = look();
      if (is_shown) has_changed = gather(now) || has_changed;
      if (!is_shown && has_ended(status_.state) && status_.problem.empty()) let_go(now);
    } catch (const Error& error) {
      status_.problem = error.what();
    }
    status_.name = gathered_.name;
    return has_changed || status_.problem != before;
  }

  const std::string& place() const { return place_; }
  bool is_whole() const { return looked_at_.has_value(); }
  const RunStatus& status() const { return status_; }
  const GatheredRun& gathered() const { return gathered_; }

 private:
  bool look() {
    if (!watched_) watched_ = std::make_shared<WatchedRun>(RunPlaces{.run = place_});
    const bool has_changed = watched_->look();
    status_ = watched_->status();
    gathered_.log = std::shared_ptr<const RunLog>(watched_, watched_->log());
    return has_changed;
  }

  // Lists the checkpoints, and finds out what autoresume would choose.
  bool gather(SteadyTime now) {
    if (!is_due(looked_at_, store_->may_be_far(), now)) return false;
    const std::size_t state = state_of_folders();
    const bool has_changed = !looked_at_ || !state_ || *state_ != state;
    if (has_changed) {
      GatheredRun found{.name = gathered_.name, .log = gathered_.log};
      gather_folders(found, place_, {}, NoConsole().console());
      explain_folders(found, Verify::kQuick);
      gathered_ = std::move(found);
      state_ = state;
      if (has_doubts(gathered_)) state_.reset();
    }
    looked_at_ = now;
    return has_changed;
  }

  std::size_t state_of_folders() const {
    std::size_t state = state_of_folder(*store_, shown_place(place_));
    for (const GatheredFolder& folder : gathered_.folders)
      state = state * 31 + state_of_folder(*store_, folder.listed.folder);
    return state;
  }

  // Forgets all but the status of a run that has ended.
  void let_go(SteadyTime now) {
    const auto info = status_.log.empty() ? std::nullopt : store_->stat(status_.log);
    if (!info) return;
    let_go_ =
        LetGo{.log = *info, .folder = state_of_folder(*store_, shown_place(place_)), .seen = now};
    watched_ = nullptr;
    gathered_ = {.name = gathered_.name};
    state_ = std::nullopt;
    looked_at_ = std::nullopt;
  }
  bool is_let_go() const { return let_go_.has_value(); }
  bool is_as_it_was(SteadyTime now) {
    const auto info = store_->stat(status_.log);
    if (!info || !is_unchanged(let_go_->log, *info)) return false;
    if (!is_due(let_go_->seen, /*is_rare=*/true, now)) return true;
    let_go_->seen = now;
    return state_of_folder(*store_, shown_place(place_)) == let_go_->folder;
  }

  // How things were when a run was let go.
  struct LetGo {
    ObjectInfo log;
    std::size_t folder = 0;
    SteadyTime seen;  // the last time that they were found to be so
  };

  std::shared_ptr<ObjectStore> store_;
  std::string place_;
  RunStatus status_ = {};
  GatheredRun gathered_ = {};
  std::shared_ptr<WatchedRun> watched_ = nullptr;  // null: not looked at yet, or let go
  std::optional<LetGo> let_go_ = std::nullopt;
  std::optional<std::size_t> state_ = std::nullopt;     // of the folders, when they were listed
  std::optional<SteadyTime> looked_at_ = std::nullopt;  // when the folders were
};

ServedRuns::ServedRuns(std::string place)
    : place_(std::move(place)), store_(store_of(place_, nullptr)), is_far_(store_->may_be_far()) {}

ServedRuns::~ServedRuns() = default;

void ServedRuns::refresh(const std::set<std::string>& shown, SteadyTime now) {
  if (is_due(found_at_, is_far_, now)) {
    look_for_runs();
    found_at_ = now;
  }
  for (const auto& [name, run] : runs_) {
    if (run->refresh(shown.contains(name), now)) ++revision_;
  }
}

void ServedRuns::look_for_runs() {
  std::map<std::string, std::string> known;
  for (const auto& [name, run] : runs_)
    known.emplace(name, run->place());
  const FoundRuns found = find_runs(*store_, place_, known);
  if (found.runs == known && found.not_looked_at == not_looked_at_) return;
  ++revision_;
  not_looked_at_ = found.not_looked_at;
  std::erase_if(runs_, [&](const auto& run) { return !found.runs.contains(run.first); });
  for (const auto& [name, place] : found.runs) {
    auto& run = runs_[name];
    if (run == nullptr) run = std::make_unique<Run>(name, place, store_);
  }
}

void ServedRuns::complete(const std::set<std::string>& shown, SteadyTime now) {
  for (const std::string& name : shown) {
    const auto run = runs_.find(name);
    if (run == runs_.end() || run->second->is_whole()) continue;
    if (run->second->refresh(true, now)) ++revision_;
  }
}

std::vector<RunStatus> ServedRuns::runs() const {
  std::vector<RunStatus> all;
  for (const auto& [name, run] : runs_)
    all.push_back(run->status());
  return all;
}

std::vector<GatheredRun> ServedRuns::all(const std::set<std::string>& shown) const {
  std::vector<GatheredRun> all;
  for (const std::string& name : shown) {
    const auto run = runs_.find(name);
    if (run != runs_.end()) all.push_back(run->second->gathered());
  }
  return all;
}

}  // namespace cairn::cli

#include "cli/serve/served_runs.h"

#include <algorithm>
#include <functional>
#include <ostream>
#include <string_view>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "cli/runs/event_files.h"
#include "cli/runs/run_log.h"
#include "cli/runs/run_places.h"
#include "cli/runs/watched_run.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kMostRuns = 100;
// How long a listing of a far store counts, because each costs a request.
constexpr auto kListingCounts = std::chrono::seconds(60);
// The clock of a file system may be this coarse.
constexpr auto kCoarseClock = std::chrono::seconds(2);

bool is_due(const std::optional<WallTime>& last, bool is_far, WallTime now) {
  return !last || !is_far || now - *last >= kListingCounts;
}

bool is_of_run(const std::vector<ListedName>& names) {
  return std::ranges::any_of(names, [](const ListedName& listed) {
    return is_log_name(listed.name) || is_event_file_name(listed.name) ||
           has_checkpoint_name(listed.name);
  });
}

// A text that is another one when something in the folder has changed.
std::string state_of_folder(ObjectStore& store, const std::string& folder, WallTime now) {
  std::string text;
  if (!store.may_be_far()) {
    const auto info = store.stat(folder);
    if (!info) return text;
    text = std::to_string(info->modified.time_since_epoch().count());
    if (now - info->modified < kCoarseClock)
      text += " " + std::to_string(now.time_since_epoch().count());
    return text;
  }
  for (const ListedName& listed : list_all_if_any(store, folder)) {
    text += listed.name + "/";
    if (listed.info) {
      text += std::to_string(listed.info->size) + "/" + listed.info->version + "/" +
              std::to_string(listed.info->modified.time_since_epoch().count());
    }
  }
  return std::to_string(std::hash<std::string>()(text));
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

  void refresh(bool is_shown, WallTime now) {
    if (is_let_go()) {
      if (!is_shown && is_same_log()) return;
      let_go_.reset();
    }
    try {
      look();
      if (is_shown) gather(now);
    } catch (const Error& error) {
      status_.problem = error.what();
    }
    status_.name = gathered_.name;
    if (!is_shown && has_ended(status_.state) && status_.problem.empty()) let_go();
  }

  bool is_whole() const { return looked_at_.has_value(); }
  const RunStatus& status() const { return status_; }
  const GatheredRun& gathered() const { return gathered_; }

 private:
  void look() {
    if (!watched_) watched_ = std::make_shared<WatchedRun>(RunPlaces{.run = place_});
    watched_->look();
    status_ = watched_->status();
    gathered_.log = std::shared_ptr<const RunLog>(watched_, watched_->log());
  }

  // Lists the checkpoints, and finds out what autoresume would choose.
  void gather(WallTime now) {
    if (!is_due(looked_at_, store_->may_be_far(), now)) return;
    std::string state = state_of_folders(now);
    if (!looked_at_ || state != state_) {
      GatheredRun found{.name = gathered_.name, .log = gathered_.log};
      gather_folders(found, place_, {}, NoConsole().console());
      explain_folders(found, Verify::kQuick);
      gathered_ = std::move(found);
      state_ = std::move(state);
    }
    looked_at_ = now;
  }

  std::string state_of_folders(WallTime now) const {
    std::string text = state_of_folder(*store_, shown_place(place_), now);
    for (const GatheredFolder& folder : gathered_.folders)
      text += "\n" + state_of_folder(*store_, folder.listed.folder, now);
    return text;
  }

  // Forgets all but the status of a run that has ended, until its log changes.
  void let_go() {
    log_ = status_.log;
    let_go_ = log_.empty() ? std::nullopt : store_->stat(log_);
    if (!let_go_) return;
    watched_ = nullptr;
    gathered_ = {.name = gathered_.name};
    looked_at_ = std::nullopt;
  }
  bool is_let_go() const { return let_go_.has_value(); }
  bool is_same_log() const {
    const auto info = store_->stat(log_);
    return info && info->size == let_go_->size && info->modified == let_go_->modified &&
           info->version == let_go_->version;
  }

  std::shared_ptr<ObjectStore> store_;
  std::string place_;
  RunStatus status_ = {};
  GatheredRun gathered_ = {};
  std::shared_ptr<WatchedRun> watched_ = nullptr;  // null: not looked at yet, or let go
  std::string log_ = {};
  std::optional<ObjectInfo> let_go_ = std::nullopt;   // of the log, when it was let go
  std::string state_ = {};                            // of the folders, when they were listed
  std::optional<WallTime> looked_at_ = std::nullopt;  // when the folders were
};

ServedRuns::ServedRuns(std::string place)
    : place_(std::move(place)), store_(store_of(place_, nullptr)), is_far_(store_->may_be_far()) {}

ServedRuns::~ServedRuns() = default;

void ServedRuns::refresh(const std::set<std::string>& shown, WallTime now) {
  if (is_due(found_at_, is_far_, now)) {
    find_runs();
    found_at_ = now;
  }
  for (const auto& [name, run] : runs_)
    run->refresh(shown.contains(name), now);
}

void ServedRuns::find_runs() {
  const std::string folder = shown_place(place_);
  const std::vector<ListedName> names = list_all(*store_, folder);
  std::map<std::string, std::string> found;  // name, place
  if (is_of_run(names)) {
    found.emplace(base_name(folder), place_);
  } else {
    found = runs_below(folder, names);
  }
  std::erase_if(runs_, [&](const auto& run) { return !found.contains(run.first); });
  for (const auto& [name, place] : found) {
    auto& run = runs_[name];
    if (run == nullptr) run = std::make_unique<Run>(name, place, store_);
  }
}

std::map<std::string, std::string> ServedRuns::runs_below(const std::string& folder,
                                                          const std::vector<ListedName>& names) {
  std::vector<std::pair<WallTime, std::string>> folders;
  for (const ListedName& listed : names) {
    const auto info = info_of(*store_, folder, listed);
    if (info && info->type == ObjectInfo::Type::kFolder)
      folders.emplace_back(info->modified, listed.name);
  }
  std::ranges::sort(folders, std::greater());
  not_looked_at_ = folders.size() - std::min(folders.size(), kMostRuns);
  folders.resize(folders.size() - not_looked_at_);
  std::map<std::string, std::string> found;
  for (const auto& [modified, name] : folders) {
    std::string place = join_path(folder, name);
    // A run that is known stays, also if it cannot be listed now.
    if (runs_.contains(name) || is_run(place)) found.emplace(name, std::move(place));
  }
  return found;
}

bool ServedRuns::is_run(const std::string& folder) const {
  try {
    return is_of_run(list_all_if_any(*store_, folder));
  } catch (const StorageError&) {
    return false;
  }
}

void ServedRuns::complete(const std::set<std::string>& shown, WallTime now) {
  for (const std::string& name : shown) {
    const auto run = runs_.find(name);
    if (run != runs_.end() && !run->second->is_whole()) run->second->refresh(true, now);
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

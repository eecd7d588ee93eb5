#include "saving/saver_uploads.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <ranges>
#include <utility>

#include "cairn/train/logger.h"

#include "saving/best_saves.h"
#include "saving/same_moment.h"

namespace cairn {

struct SaverUploads::Arrivals {
  std::mutex mutex;
  struct Save {
    std::string path;
    std::string name;                        // The remote name.
    std::size_t missing;                     // Destinations that do not have it yet.
    std::vector<UploadedSave> removes = {};  // Existing files that are removed after it.
    bool is_newest = true;                   // Newest save of that path.
    bool is_replaced = false;
  };
  std::map<std::uint64_t, Save> saves;   // By number, until they are taken or given up.
  std::map<std::uint64_t, Save> failed;  // Until the saver asks about them.
  std::uint64_t last_failed = 0;

  void expect(std::uint64_t number, Save save) {
    if (save.missing == 0) return;
    const std::scoped_lock lock(mutex);
    for (auto& [earlier, other] : saves) {
      if (other.path == save.path) other.is_newest = false;
    }
    saves.insert({number, std::move(save)});
  }
  void arrive(std::uint64_t number) {
    const std::scoped_lock lock(mutex);
    const auto found = saves.find(number);
    if (found != saves.end() && found->second.missing > 0) --found->second.missing;
  }
  // Called by destructors: allocates no memory.
  void give_up(std::uint64_t number) noexcept {
    const std::scoped_lock lock(mutex);
    const auto found = saves.find(number);
    if (found == saves.end() || found->second.missing == 0) return;
    Save& save = found->second;
    save.is_replaced = std::any_of(std::next(found), saves.end(), [&](const auto& later) {
      return later.second.name == save.name;
    });
    if (save.is_replaced) {
      save.missing = 0;
    } else {
      last_failed = std::max(last_failed, number);
      failed.insert(saves.extract(found));
    }
  }
};

// Shared by the uploads of one save to all destinations. If no destination holds this object any
// more and some destinations have not reported, these never will: the upload failed there, or a
// newer one replaced it.
class SaverUploads::PendingUpload {
 public:
  PendingUpload(std::shared_ptr<Arrivals> arrivals, std::uint64_t number)
      : arrivals_(std::move(arrivals)), number_(number) {}
  ~PendingUpload() { arrivals_->give_up(number_); }
  PendingUpload(const PendingUpload&) = delete;
  PendingUpload& operator=(const PendingUpload&) = delete;
  void arrive() const { arrivals_->arrive(number_); }

 private:
  const std::shared_ptr<Arrivals> arrivals_;
  const std::uint64_t number_;
};

SaverUploads::SaverUploads(int keep, std::optional<KeepBest> best)
    : keep_(keep), best_(std::move(best)), arrivals_(std::make_shared<Arrivals>()) {}

bool SaverUploads::has_destination(const Logger& logger) {
  return std::ranges::any_of(logger.destinations(), [](const auto& destination) {
    return destination->can_upload_files();
  });
}

void SaverUploads::look(const NameFormat& file, const NameFormat& latest, const Logger& logger) {
  for (const auto& destination : logger.destinations()) {
    if (!destination->can_upload_files()) continue;
    destination->look_before_uploads(file, latest);
  }
}

void SaverUploads::begin(const std::string& path, Names names) { begun_[path] = std::move(names); }

void SaverUploads::note_metric(const Timestamp& now, double metric) {
  for (auto& [path, names] : begun_) {
    if (is_same_moment(names.timestamp, now)) names.metric = metric;
  }
  for (UploadedSave& kept : kept_) {
    if (is_same_moment(kept.timestamp, now)) kept.metric = metric;
  }
}

void SaverUploads::hand_over(const std::string& path, Logger& logger, Replace replace) {
  const auto begun = begun_.extract(path);
  if (begun.empty()) return;
  const Names& names = begun.mapped();
  FileUpload file{.remote_file_name = names.file,
                  .file_path = path,
                  .overwrite = replace != Replace::kNever,
                  .only_known = replace == Replace::kOwn,
                  .remote_file_name_format = names.format,
                  .timestamp = names.timestamp,
                  .latest_remote_file_name = names.latest,
                  .is_immutable = true};
  const std::uint64_t number = ++count_;
  note_failed_uploads();
  std::vector<UploadedSave> removes;
  if (keep_ > 0) {
    for (const UploadedSave& kept : superfluous_after({.name = names.file,
                                    .number = number,
                                    .timestamp = names.timestamp,
                                    .metric = names.metric})) {
      file.remove_afterwards.push_back(kept.name);
      if (!kept.is_missing) removes.push_back(kept);
    }
  }
  const auto& all = logger.destinations();
  arrivals_->expect(number, {.path = path,
                             .name = names.file,
                             .missing = static_cast<std::size_t>(std::ranges::count_if(
                                 all, [](const auto& d) { return d->can_upload_files(); })),
                             .removes = std::move(removes)});
  file.on_done = [on_its_way = std::make_shared<const PendingUpload>(arrivals_, number)](
                     const auto&) { on_its_way->arrive(); };
  std::exception_ptr refused;  // By one destination; the others still get the file.
  for (const auto& destination : all) {
    if (!destination->can_upload_files()) continue;
    try {
      destination->upload_file(file);
    } catch (...) {
      if (refused == nullptr) refused = std::current_exception();
    }
  }
  if (refused != nullptr) std::rethrow_exception(refused);
}

void SaverUploads::note_failed_uploads() {
  std::map<std::uint64_t, Arrivals::Save> failed;
  {
    const std::scoped_lock lock(arrivals_->mutex);
    failed.swap(arrivals_->failed);
  }
  if (keep_ <= 0) return;
  for (UploadedSave& kept : kept_)
    kept.is_missing = kept.is_missing || failed.contains(kept.number);
  for (auto& [number, save] : failed | std::views::reverse) {
    for (UploadedSave& old : save.removes | std::views::reverse) {
      const bool is_again = std::ranges::find(kept_, old.name, &UploadedSave::name) != kept_.end();
      if (is_again) continue;
      old.number = 0;
      const auto is_newer = [&old](const UploadedSave& kept) {  // also one of the same batch
        return kept.timestamp.batch >= old.timestamp.batch;
      };
      kept_.insert(std::ranges::find_if(kept_, is_newer), std::move(old));
    }
  }
}

// Returns the saves that already have `keep` newer saves at all destinations. Saves that are
// missing at one destination may exist at others. No more than `keep` of the missing saves are
// remembered.
std::vector<SaverUploads::UploadedSave> SaverUploads::superfluous_after(UploadedSave newest) {
  const auto keep = static_cast<std::ptrdiff_t>(keep_);
  std::erase_if(kept_, [&](const UploadedSave& kept) { return kept.name == newest.name; });
  kept_.push_back(std::move(newest));
  const std::vector<bool> stays = kept_by_metric();
  auto missing = std::ranges::count_if(kept_, std::identity(), &UploadedSave::is_missing);
  auto newer = std::ssize(kept_) - missing;
  std::vector<UploadedSave> superfluous;
  std::deque<UploadedSave> staying;
  for (std::size_t i = 0; i < kept_.size(); ++i) {  // From the oldest on.
    UploadedSave& kept = kept_[i];
    newer -= kept.is_missing ? 0 : 1;
    const bool is_among_newest = newer < keep && (!kept.is_missing || missing <= keep);
    if (!is_among_newest) missing -= kept.is_missing ? 1 : 0;
    const bool is_kept = is_among_newest || stays[i];
    if (is_kept) staying.push_back(std::move(kept));
    if (!is_kept) superfluous.push_back(std::move(kept));
  }
  kept_ = std::move(staying);
  return superfluous;
}

// An upload that is under way may still fail, except that removals wait for the newest.
std::vector<bool> SaverUploads::kept_by_metric() const {
  std::vector<RankedSave> saves;
  const std::scoped_lock lock(arrivals_->mutex);
  for (const UploadedSave& kept : kept_) {
    const auto arriving = arrivals_->saves.find(kept.number);
    const bool is_pending = arriving != arrivals_->saves.end() && arriving->second.missing > 0;
    saves.push_back(
        {.metric = kept.is_missing ? std::nullopt : kept.metric, .is_pending = is_pending});
  }
  return kept_as_best(saves, best_);
}

void SaverUploads::drop_failed(const std::vector<std::string>& durable) {
  std::erase_if(begun_, [&](const auto& begun) {
    return std::ranges::find(durable, begun.first) == durable.end();
  });
}

std::vector<SaverUploads::Uploaded> SaverUploads::take_uploaded() {
  std::vector<Uploaded> uploaded;
  const std::scoped_lock lock(arrivals_->mutex);
  std::erase_if(arrivals_->saves, [&](const auto& numbered) {
    const Arrivals::Save& save = numbered.second;
    if (save.missing > 0 || begun_.contains(save.path)) return false;
    uploaded.push_back(
        {.path = save.path, .is_there = save.is_newest, .is_replaced = save.is_replaced});
    return true;
  });
  return uploaded;
}

bool SaverUploads::has_newest_failed() const {
  const std::scoped_lock lock(arrivals_->mutex);
  return count_ > 0 && arrivals_->last_failed == count_;
}

std::size_t SaverUploads::size() const {
  const std::scoped_lock lock(arrivals_->mutex);
  return begun_.size() + kept_.size() + arrivals_->saves.size();
}

}  // namespace cairn

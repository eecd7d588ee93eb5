#include "callbacks/saver_uploads.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>

#include "cairn/train/logger.h"

namespace cairn {

struct SaverUploads::Arrivals {
  std::mutex mutex;
  struct Save {
    std::string path;
    std::string name;       // there
    std::size_t missing;    // destinations that do not have it yet
    bool is_newest = true;  // of that path
    bool is_replaced = false;
  };
  std::map<std::uint64_t, Save> saves;  // by number: until they are taken, or given up
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
  void give_up(std::uint64_t number) {
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
      saves.erase(found);
    }
  }
};

// Shared by what the destinations were given of one save. When none of them has it any more, and
// not all have reported, some never will: it failed there, or a newer one took its place.
class SaverUploads::OnItsWay {
 public:
  OnItsWay(std::shared_ptr<Arrivals> arrivals, std::uint64_t number)
      : arrivals_(std::move(arrivals)), number_(number) {}
  ~OnItsWay() { arrivals_->give_up(number_); }
  OnItsWay(const OnItsWay&) = delete;
  OnItsWay& operator=(const OnItsWay&) = delete;
  void arrive() const { arrivals_->arrive(number_); }

 private:
  const std::shared_ptr<Arrivals> arrivals_;
  const std::uint64_t number_;
};

SaverUploads::SaverUploads(int keep) : keep_(keep), arrivals_(std::make_shared<Arrivals>()) {}

bool SaverUploads::has_destination(const Logger& logger) {
  return std::ranges::any_of(logger.destinations(), [](const auto& destination) {
    return destination->can_upload_files();
  });
}

void SaverUploads::look(const Names& formats, const Logger& logger) {
  for (const auto& destination : logger.destinations()) {
    if (!destination->can_upload_files()) continue;
    destination->look_before_uploads(formats.file, formats.latest);
  }
}

void SaverUploads::begin(const std::string& path, Names names) { begun_[path] = std::move(names); }

void SaverUploads::hand_over(const std::string& path, Logger& logger, Overwrite overwrite) {
  const auto begun = begun_.extract(path);
  if (begun.empty()) return;
  const Names& names = begun.mapped();
  FileUpload file{.remote_file_name = names.file,
                  .file_path = path,
                  .overwrite = overwrite != Overwrite::kNone,
                  .only_known = overwrite == Overwrite::kKnown,
                  .remote_file_name_format = names.format,
                  .timestamp = names.timestamp,
                  .latest_remote_file_name = names.latest,
                  .is_immutable = true};
  if (keep_ > 0) {
    std::erase(kept_, names.file);
    kept_.push_back(names.file);
    while (kept_.size() > static_cast<std::size_t>(keep_)) {
      file.remove_afterwards.push_back(kept_.front());
      kept_.pop_front();
    }
  }
  const std::uint64_t number = ++count_;
  const auto& all = logger.destinations();
  arrivals_->expect(number, {.path = path,
                             .name = names.file,
                             .missing = static_cast<std::size_t>(std::ranges::count_if(
                                 all, [](const auto& d) { return d->can_upload_files(); }))});
  file.on_done = [on_its_way = std::make_shared<const OnItsWay>(arrivals_, number)](const auto&) {
    on_its_way->arrive();
  };
  std::exception_ptr refused;  // by one of them: that is no reason that the others do not get it
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

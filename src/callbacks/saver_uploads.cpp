#include "callbacks/saver_uploads.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "cairn/train/logger.h"

namespace cairn {

struct SaverUploads::Arrivals {
  std::mutex mutex;
  struct Save {
    std::string path;
    std::size_t missing;  // destinations that do not have it yet
  };
  std::map<std::uint64_t, Save> under_way;  // by number
  std::map<std::uint64_t, std::string> complete;

  void expect(std::uint64_t number, const std::string& path, std::size_t destinations) {
    const std::scoped_lock lock(mutex);
    under_way.insert({number, {path, destinations}});
  }
  void arrive(std::uint64_t number) {
    const std::scoped_lock lock(mutex);
    const auto found = under_way.find(number);
    if (found == under_way.end() || --found->second.missing > 0) return;
    complete.insert({number, std::move(found->second.path)});
    under_way.erase(found);
  }
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
  std::erase(handed_over_, names.file);
  handed_over_.push_back(names.file);
  FileUpload file{.remote_file_name = names.file,
                  .file_path = path,
                  .overwrite = overwrite != Overwrite::kNone,
                  .only_known = overwrite == Overwrite::kKnown,
                  .latest_remote_file_name = names.latest,
                  .is_immutable = true};
  while (keep_ > 0 && handed_over_.size() > static_cast<std::size_t>(keep_)) {
    file.remove_afterwards.push_back(handed_over_.front());
    handed_over_.pop_front();
  }
  const std::uint64_t number = ++count_;
  newest_[path] = number;
  file.on_done = [arrivals = arrivals_, number](const auto&) { arrivals->arrive(number); };
  const auto& all = logger.destinations();
  arrivals_->expect(number, path,
                    static_cast<std::size_t>(std::ranges::count_if(
                        all, [](const auto& d) { return d->can_upload_files(); })));
  for (const auto& destination : all) {
    if (destination->can_upload_files()) destination->upload_file(file);
  }
}

void SaverUploads::drop_failed(const std::vector<std::string>& durable) {
  std::erase_if(begun_, [&](const auto& begun) {
    return std::ranges::find(durable, begun.first) == durable.end();
  });
}

std::vector<SaverUploads::Uploaded> SaverUploads::take_uploaded() {
  std::vector<Uploaded> uploaded;
  const std::scoped_lock lock(arrivals_->mutex);
  std::erase_if(arrivals_->complete, [&](const auto& save) {
    const auto& [number, path] = save;
    if (begun_.contains(path)) return false;
    uploaded.push_back({.path = path, .is_there = newest_.at(path) == number});
    return true;
  });
  return uploaded;
}

}  // namespace cairn

#include "callbacks/saver_uploads.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "cairn/train/logger.h"

namespace cairn {

struct SaverUploads::Arrivals {
  std::mutex mutex;
  std::map<std::string, std::size_t> missing;  // by path: destinations that do not have it yet
  std::vector<std::string> complete;

  void expect(const std::string& path, std::size_t destinations) {
    const std::scoped_lock lock(mutex);
    missing[path] = destinations;
  }
  void arrive(const std::string& path) {
    const std::scoped_lock lock(mutex);
    const auto found = missing.find(path);
    if (found == missing.end() || --found->second > 0) return;
    missing.erase(found);
    complete.push_back(path);
  }
};

SaverUploads::SaverUploads(int keep) : keep_(keep), arrivals_(std::make_shared<Arrivals>()) {}

bool SaverUploads::has_destination(const Logger& logger) {
  return std::ranges::any_of(logger.destinations(), [](const auto& destination) {
    return destination->can_upload_files();
  });
}

void SaverUploads::begin(const std::string& path, Names names) { begun_[path] = std::move(names); }

void SaverUploads::hand_over(const std::string& path, Logger& logger, bool overwrite) {
  const auto begun = begun_.extract(path);
  if (begun.empty()) return;
  const Names& names = begun.mapped();
  std::erase(handed_over_, names.file);
  handed_over_.push_back(names.file);
  FileUpload file{.remote_file_name = names.file,
                  .file_path = path,
                  .overwrite = overwrite,
                  .latest_remote_file_name = names.latest,
                  .is_immutable = true};
  while (keep_ > 0 && handed_over_.size() > static_cast<std::size_t>(keep_)) {
    file.remove_afterwards.push_back(handed_over_.front());
    handed_over_.pop_front();
  }
  file.on_done = [arrivals = arrivals_, path](const auto&) { arrivals->arrive(path); };
  const auto& all = logger.destinations();
  arrivals_->expect(path, static_cast<std::size_t>(std::ranges::count_if(
                              all, [](const auto& d) { return d->can_upload_files(); })));
  for (const auto& destination : all) {
    if (destination->can_upload_files()) destination->upload_file(file);
  }
}

std::vector<std::string> SaverUploads::take_uploaded() {
  const std::scoped_lock lock(arrivals_->mutex);
  return std::exchange(arrivals_->complete, {});
}

}  // namespace cairn

#include "callbacks/saver_uploads.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#include "cairn/train/logger.h"

namespace cairn {

struct SaverUploads::Arrivals {
  struct UnderWay {
    std::uint64_t number = 0;      // of the last upload of the path: those before do not count
    std::size_t destinations = 0;  // that do not have it yet
  };
  std::mutex mutex;
  std::map<std::string, UnderWay> under_way;  // by path
  std::vector<std::string> complete;
  std::uint64_t last = 0;

  std::uint64_t expect(const std::string& path, std::size_t destinations) {
    const std::scoped_lock lock(mutex);
    under_way[path] = {++last, destinations};
    return last;
  }
  void arrive(const std::string& path, std::uint64_t number) {
    const std::scoped_lock lock(mutex);
    const auto found = under_way.find(path);
    if (found == under_way.end() || found->second.number != number) return;
    if (--found->second.destinations > 0) return;
    under_way.erase(found);
    complete.push_back(path);
  }
  void forget(const std::string& path) {
    const std::scoped_lock lock(mutex);
    under_way.erase(path);
    std::erase(complete, path);
  }
};

SaverUploads::SaverUploads(int keep) : keep_(keep), arrivals_(std::make_shared<Arrivals>()) {}

bool SaverUploads::has_destination(const Logger& logger) {
  return std::ranges::any_of(logger.destinations(), [](const auto& destination) {
    return destination->can_upload_files();
  });
}

void SaverUploads::begin(const std::string& path, Names names) {
  begun_[path] = std::move(names);
  arrivals_->forget(path);  // what has the path from now on is another file
}

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
  const auto& all = logger.destinations();
  const std::uint64_t number = arrivals_->expect(
      path, static_cast<std::size_t>(std::ranges::count_if(
                all, [](const auto& destination) { return destination->can_upload_files(); })));
  file.on_done = [arrivals = arrivals_, path, number](const auto&) {
    arrivals->arrive(path, number);
  };
  for (const auto& destination : all) {
    if (destination->can_upload_files()) destination->upload_file(file);
  }
}

std::vector<std::string> SaverUploads::take_uploaded() {
  const std::scoped_lock lock(arrivals_->mutex);
  return std::exchange(arrivals_->complete, {});
}

}  // namespace cairn

#include "storage/local/recycler.h"

#include <optional>

#include "cairn/error.h"

namespace cairn {
namespace {

// nullopt also if the file cannot be examined: the file is then removed like any other file.
std::optional<FileInfo> file_at(FileSystem& files, const FilePath& path) {
  try {
    return files.stat(path.text(), /*follow=*/false);
  } catch (const StorageError&) {
    return std::nullopt;
  }
}

}  // namespace

void Recycler::remember(const FilePath& path) {
  const auto file = file_at(files_, path);
  const std::lock_guard lock(mutex_);
  if (file) {
    written_[normal_path(path.text())] = *file;
  } else {
    written_.erase(normal_path(path.text()));
  }
}

bool Recycler::keep_as_spare(const FilePath& path) {
  const std::lock_guard lock(mutex_);
  const auto written = written_.extract(normal_path(path.text()));
  if (written.empty() || spare_ != nullptr) return false;
  if (file_at(files_, path) != written.mapped() || written.mapped().links != 1) return false;
  spare_ = std::make_unique<SpareFile>(files_, path);
  if (spare_->overwrite(0) == nullptr) spare_.reset();
  return true;
}

std::unique_ptr<SpareFile> Recycler::take_spare(const FilePath& path) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<SpareFile> spare = std::move(spare_);
  const auto folder_of = [](const FilePath& file) { return normal_path(file.folder.text()); };
  if (spare != nullptr && folder_of(spare->path()) != folder_of(path)) spare.reset();
  return spare;
}

}  // namespace cairn

#include "testing/faulty_file_system.h"

#include <algorithm>
#include <numeric>

#include "io/file_error.h"

namespace cairn::testing {
namespace {

bool only_looks(FileCall kind) {
  return kind == FileCall::kOpen || kind == FileCall::kRead || kind == FileCall::kReadLink ||
         kind == FileCall::kStat || kind == FileCall::kList;
}

}  // namespace

class FaultyFileSystem::File final : public WritableFile {
 public:
  File(FaultyFileSystem& files, std::unique_ptr<WritableFile> under, std::string path)
      : files_(files), under_(std::move(under)), path_(std::move(path)) {}

  void write(ByteView bytes) override {
    files_.begin(FileCall::kWrite, path_, [&] { under_->write(bytes.first(bytes.size() / 2)); });
    under_->write(bytes);
  }
  void sync() override {
    if (files_.begin(FileCall::kSync, path_) == Verdict::kDo) under_->sync();
  }
  void close() override {
    files_.begin(FileCall::kClose, path_);
    under_->close();
  }

 private:
  FaultyFileSystem& files_;
  std::unique_ptr<WritableFile> under_;
  std::string path_;
};

// Returns views of the wrapped source: an access to mapped memory makes no call that could fail.
class FaultyFileSystem::Source final : public ByteSource {
 public:
  Source(FaultyFileSystem& files, std::shared_ptr<const ByteSource> under)
      : files_(files), under_(std::move(under)) {}

  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  void read(std::span<const Range> ranges) const override {
    files_.begin(FileCall::kRead, name());
    under_->read(ranges);
  }
  SharedBytes view(std::uint64_t offset, std::uint64_t size) const override {
    return under_->view(offset, size);
  }

 private:
  FaultyFileSystem& files_;
  std::shared_ptr<const ByteSource> under_;
};

void FaultyFileSystem::fail(FileCall kind, std::uint64_t n, int error) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({kind, n, error});
}

void FaultyFileSystem::fail(std::uint64_t n, int error) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({std::nullopt, n, error});
}

void FaultyFileSystem::skip(FileCall kind) {
  const std::lock_guard lock(mutex_);
  skipped_.insert(kind);
}

void FaultyFileSystem::before_each(std::function<void(FileCall, std::uint64_t)> hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

std::uint64_t FaultyFileSystem::calls() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::uint64_t FaultyFileSystem::calls(FileCall kind) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<std::size_t>(kind)];
}

FaultyFileSystem::Verdict FaultyFileSystem::begin(FileCall kind, const std::string& path,
                                                  const std::function<void()>& half_done) {
  int error = 0;
  Verdict verdict = Verdict::kDo;
  {
    const std::lock_guard lock(mutex_);
    ++counts_[static_cast<std::size_t>(kind)];
    if (hook_) hook_(kind, std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0}));
    for (Fault& fault : faults_) {
      if (fault.kind && *fault.kind != kind) continue;
      if (--fault.calls_left == 0) error = fault.error;
    }
    std::erase_if(faults_, [](const Fault& fault) { return fault.calls_left == 0; });
    if (skipped_.contains(kind)) verdict = Verdict::kSkip;
  }
  if (error == 0) return verdict;
  if (half_done) half_done();
  const std::string doing = "injected fault at " + path;
  if (only_looks(kind)) throw_read_error(error, doing);
  throw_storage_error(error, doing);
}

std::unique_ptr<WritableFile> FaultyFileSystem::create(const FilePath& path,
                                                       const CreateOptions& options) {
  begin(FileCall::kCreate, path.text());
  return std::make_unique<File>(*this, under_.create(path, options), path.text());
}

std::unique_ptr<WritableFile> FaultyFileSystem::overwrite(const FilePath& path,
                                                          std::uint64_t expected_bytes) {
  begin(FileCall::kOverwrite, path.text());
  auto file = under_.overwrite(path, expected_bytes);
  return file != nullptr ? std::make_unique<File>(*this, std::move(file), path.text()) : nullptr;
}

std::shared_ptr<const ByteSource> FaultyFileSystem::open(const std::string& path) {
  begin(FileCall::kOpen, path);
  return std::make_shared<const Source>(*this, under_.open(path));
}

void FaultyFileSystem::rename(const FilePath& from, const FilePath& to, bool overwrite) {
  begin(FileCall::kRename, to.text());
  under_.rename(from, to, overwrite);
}

bool FaultyFileSystem::exchange(const FilePath& one, const FilePath& other) {
  begin(FileCall::kExchange, other.text());
  return under_.exchange(one, other);
}

std::shared_ptr<void> FaultyFileSystem::lock_folder(const FolderPath& path) {
  begin(FileCall::kLockFolder, path.text());
  return under_.lock_folder(path);
}

void FaultyFileSystem::make_link(const std::string& target, const FilePath& path) {
  begin(FileCall::kMakeLink, path.text());
  under_.make_link(target, path);
}

std::optional<std::string> FaultyFileSystem::read_link(const std::string& path) {
  begin(FileCall::kReadLink, path);
  return under_.read_link(path);
}

bool FaultyFileSystem::remove(const FilePath& path) {
  return begin(FileCall::kRemove, path.text()) == Verdict::kDo && under_.remove(path);
}

bool FaultyFileSystem::remove_unlocked(const FilePath& path) {
  begin(FileCall::kRemoveUnlocked, path.text());
  return under_.remove_unlocked(path);
}

bool FaultyFileSystem::remove_folder(const FilePath& path) {
  return begin(FileCall::kRemove, path.text()) == Verdict::kDo && under_.remove_folder(path);
}

void FaultyFileSystem::make_folders(const FolderPath& path) {
  begin(FileCall::kMakeFolders, path.text());
  under_.make_folders(path);
}

void FaultyFileSystem::sync_folder(const FolderPath& path) {
  if (begin(FileCall::kSyncFolder, path.text()) == Verdict::kDo) under_.sync_folder(path);
}

std::optional<FileInfo> FaultyFileSystem::stat(const std::string& path, bool follow) {
  begin(FileCall::kStat, path);
  return under_.stat(path, follow);
}

std::vector<std::string> FaultyFileSystem::list(const std::string& folder) {
  begin(FileCall::kList, folder);
  return under_.list(folder);
}

}  // namespace cairn::testing

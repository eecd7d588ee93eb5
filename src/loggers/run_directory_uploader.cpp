#include "cairn/loggers/run_directory_uploader.h"

#include <exception>
#include <map>
#include <mutex>
#include <set>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/train/state.h"

#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

constexpr int kRunDirectoryAttempts = 4;  // Composer's

RemoteUploaderDownloaderOptions uploader_options(const RunDirectoryUploaderOptions& options) {
  if (options.upload_every_n_batches < 1) {
    throw UsageError("RunDirectoryUploader: upload_every_n_batches is at least 1, not " +
                     std::to_string(options.upload_every_n_batches));
  }
  return {.bucket_uri = options.bucket_uri,
          .num_concurrent_uploads = options.num_concurrent_uploads,
          .upload_staging_folder = options.upload_staging_folder,
          .num_attempts = kRunDirectoryAttempts,
          .store = options.store,
          .upload_timeout = options.upload_timeout,
          .store_patience = options.store_patience};
}

// For each file, by path: the version that is being uploaded or has arrived. Called by the
// uploader's threads, too.
class Versions {
 public:
  bool is_sent(const std::string& path, const std::string& version) {
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(path);
    return found != known_.end() && found->second.version == version;
  }
  void send(const std::string& path, const std::string& version) {
    const std::scoped_lock lock(mutex_);
    Known& known = known_[path];
    if (known.version != version) known = {version};  // otherwise it has arrived already
  }
  void arrive(const std::string& path, const std::string& version) {
    const std::scoped_lock lock(mutex_);
    const Known& known = known_.try_emplace(path, Known{version}).first->second;
    if (known.version == version) known_[path].has_arrived = true;
  }
  // Forgets files that are gone: a run may make any number of them.
  void forget_all_but(const std::set<std::string>& paths) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(known_, [&](const auto& known) { return !paths.contains(known.first); });
  }
  void forget_sent() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(known_, [](const auto& known) { return !known.second.has_arrived; });
  }

 private:
  struct Known {
    std::string version;
    bool has_arrived = false;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace

struct RunDirectoryUploader::Impl {
  explicit Impl(RunDirectoryUploaderOptions o)
      : options(std::move(o)), uploader(uploader_options(options)) {}

  std::string object_name(const std::string& path) const {
    const std::string prefix = options.object_name_prefix.value_or(base_name(folder));
    const std::string of_rank = "rank_" + std::to_string(dist::rank());
    return join_path(join_path(prefix, of_rank), relative_path(normal_path(path), folder));
  }

  void upload_changes() {
    std::set<std::string> there;
    upload_changes(folder, there);
    versions->forget_all_but(there);
  }
  void upload_changes(const std::string& where, std::set<std::string>& there) {
    const auto files = local_store();
    if (!files->stat(where)) return;
    for (const ListedName& listed : list_all(*files, where)) {
      const auto info = info_of(*files, where, listed);
      const std::string path = join_path(where, listed.name);
      if (info && info->type == ObjectInfo::Type::kFolder) upload_changes(path, there);
      if (!info || info->type != ObjectInfo::Type::kObject) continue;
      there.insert(path);
      if (versions->is_sent(path, info->version)) continue;
      const auto arrived = [versions = versions, path, version = info->version](const auto&) {
        versions->arrive(path, version);
      };
      try {
        uploader.upload_file({.remote_file_name = object_name(path),
                              .file_path = path,
                              .overwrite = true,
                              .on_done = arrived});
      } catch (const NotFoundError&) {  // removed meanwhile
        continue;
      }
      versions->send(path, info->version);
    }
  }

  // Calls `act`, which may throw the error of an upload. The error does not say which file failed,
  // so everything that has not arrived by then is sent again the next time.
  template <class Act>
  void watch(const Act& act) {
    try {
      act();
    } catch (...) {
      versions->forget_sent();
      throw;
    }
  }

  RunDirectoryUploaderOptions options;
  RemoteUploaderDownloader uploader;
  std::string folder;  // set by init
  const std::shared_ptr<Versions> versions = std::make_shared<Versions>();
};

RunDirectoryUploader::RunDirectoryUploader(RunDirectoryUploaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
RunDirectoryUploader::~RunDirectoryUploader() = default;
RunDirectoryUploader::RunDirectoryUploader(RunDirectoryUploader&&) noexcept = default;
RunDirectoryUploader& RunDirectoryUploader::operator=(RunDirectoryUploader&&) noexcept = default;

void RunDirectoryUploader::init(State& state, Logger& logger) {
  impl_->folder = normal_path(
      strict_format(NameFormat(impl_->options.run_directory), dist_variables(state.run_name)));
  impl_->uploader.init(state, logger);
}

void RunDirectoryUploader::batch_end(State& state, Logger& logger) {
  impl_->watch([&] { impl_->uploader.batch_end(state, logger); });
  if (state.timestamp.batch % impl_->options.upload_every_n_batches == 0) impl_->upload_changes();
}

void RunDirectoryUploader::epoch_end(State& state, Logger& logger) {
  impl_->watch([&] { impl_->uploader.epoch_end(state, logger); });
  impl_->upload_changes();
}

void RunDirectoryUploader::fit_end(State& state, Logger& logger) {
  impl_->upload_changes();
  impl_->watch([&] { impl_->uploader.fit_end(state, logger); });
}

void RunDirectoryUploader::close(State& state, Logger& logger) {
  std::exception_ptr failed;
  try {
    impl_->upload_changes();
  } catch (...) {
    failed = std::current_exception();
  }
  impl_->uploader.close(state, logger);  // uploads that are on their way still arrive
  if (failed != nullptr) std::rethrow_exception(failed);
}

std::string RunDirectoryUploader::get_uri_for_uploaded_file(const std::string& path) const {
  return impl_->uploader.get_uri_for_file(impl_->object_name(path));
}

}  // namespace cairn

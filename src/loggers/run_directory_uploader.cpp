#include "cairn/loggers/run_directory_uploader.h"

#include <map>

#include "cairn/checkpoint/names.h"
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
          .upload_timeout = options.upload_timeout};
}

}  // namespace

struct RunDirectoryUploader::Impl {
  explicit Impl(RunDirectoryUploaderOptions o)
      : options(std::move(o)), uploader(uploader_options(options)) {}

  std::string object_name(const std::string& path) const {
    const std::string prefix = options.object_name_prefix.value_or(base_name(folder));
    return join_path(join_path(prefix, "rank_0"), relative_path(normal_path(path), folder));
  }

  void upload_changes() { upload_changes(folder); }
  void upload_changes(const std::string& where) {
    const auto files = local_store();
    if (!files->stat(where)) return;
    for (const ListedName& listed : list_all(*files, where)) {
      const auto info = info_of(*files, where, listed);
      const std::string path = join_path(where, listed.name);
      if (info && info->type == ObjectInfo::Type::kFolder) upload_changes(path);
      if (!info || info->type != ObjectInfo::Type::kObject) continue;
      std::string& uploaded = versions[path];
      if (uploaded == info->version) continue;
      try {
        uploader.upload_file(
            {.remote_file_name = object_name(path), .file_path = path, .overwrite = true});
      } catch (const NotFoundError&) {  // removed since
        continue;
      }
      uploaded = info->version;
    }
  }

  RunDirectoryUploaderOptions options;
  RemoteUploaderDownloader uploader;
  std::string folder;                           // since init
  std::map<std::string, std::string> versions;  // by path: what was uploaded last
};

RunDirectoryUploader::RunDirectoryUploader(RunDirectoryUploaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
RunDirectoryUploader::~RunDirectoryUploader() = default;
RunDirectoryUploader::RunDirectoryUploader(RunDirectoryUploader&&) noexcept = default;
RunDirectoryUploader& RunDirectoryUploader::operator=(RunDirectoryUploader&&) noexcept = default;

void RunDirectoryUploader::init(State& state, Logger& logger) {
  impl_->folder =
      normal_path(strict_format(impl_->options.run_directory, dist_variables(state.run_name)));
  impl_->uploader.init(state, logger);
}

void RunDirectoryUploader::batch_end(State& state, Logger& logger) {
  impl_->uploader.batch_end(state, logger);
  if (state.timestamp.batch % impl_->options.upload_every_n_batches == 0) impl_->upload_changes();
}

void RunDirectoryUploader::epoch_end(State& state, Logger& logger) {
  impl_->uploader.epoch_end(state, logger);
  impl_->upload_changes();
}

void RunDirectoryUploader::fit_end(State& state, Logger& logger) {
  impl_->upload_changes();
  impl_->uploader.fit_end(state, logger);
}

void RunDirectoryUploader::close(State& state, Logger& logger) {
  impl_->upload_changes();
  impl_->uploader.close(state, logger);
}

std::string RunDirectoryUploader::get_uri_for_uploaded_file(const std::string& path) const {
  return impl_->uploader.get_uri_for_file(impl_->object_name(path));
}

}  // namespace cairn

// RunDirectoryUploader: a folder of this machine kept up to date in an object store, as Composer
// had it until 0.7 (there a callback). New programs: RemoteUploaderDownloader, which uploads each
// checkpoint once, without a copy, and moves `latest` behind it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace cairn {

// Composer's arguments, but for the store's, then cairn's own.
struct RunDirectoryUploaderOptions {
  std::string bucket_uri = {};                                   // "s3://bucket"
  std::string run_directory = "{run_name}";                      // dist variables
  std::optional<std::string> object_name_prefix = std::nullopt;  // nullopt: the folder's name
  int num_concurrent_uploads = 4;
  std::optional<std::string> upload_staging_folder = std::nullopt;
  int upload_every_n_batches = 100;

  std::shared_ptr<ObjectStore> store = nullptr;  // in place of bucket_uri
  std::chrono::seconds upload_timeout{3600};     // as RemoteUploaderDownloaderOptions
  std::chrono::seconds store_patience{1800};     // the same
};

// Every n batches, at the end of each epoch and fit(), and when it is closed, each file in the
// folder that has changed is copied aside, and uploaded as "PREFIX/rank_0/PATH IN THE FOLDER", with
// the process's rank, over what has that name. Links are passed over. Errors as
// RemoteUploaderDownloader.
class RunDirectoryUploader final : public LoggerDestination {
 public:
  explicit RunDirectoryUploader(RunDirectoryUploaderOptions options);  // UsageError
  explicit RunDirectoryUploader(EmptyBraces)  // RunDirectoryUploader({.bucket_uri = "s3://bucket"})
      : RunDirectoryUploader(RunDirectoryUploaderOptions()) {}
  ~RunDirectoryUploader() override;
  RunDirectoryUploader(RunDirectoryUploader&&) noexcept;
  RunDirectoryUploader& operator=(RunDirectoryUploader&&) noexcept;

  std::string name() const override { return "RunDirectoryUploader"; }
  void init(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;

  // What a file of the folder is called in the store.
  std::string get_uri_for_uploaded_file(const std::string& path) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn

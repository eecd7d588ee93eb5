// RunDirectoryUploader: keeps an object store's copy of a local folder up to date, as Composer did
// until 0.7 (in Composer a callback). New programs use RemoteUploaderDownloader: it uploads each
// checkpoint once, without a copy, and moves `latest` afterwards.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// Composer's arguments, except those for the store, then the options that only cairn has.
struct RunDirectoryUploaderOptions {
  std::string bucket_uri = {};                                   // "s3://bucket"
  std::string run_directory = "{run_name}";                      // dist variables
  std::optional<std::string> object_name_prefix = std::nullopt;  // nullopt: the folder's name
  int num_concurrent_uploads = 4;
  std::optional<std::string> upload_staging_folder = std::nullopt;
  int upload_every_n_batches = 100;

  std::shared_ptr<ObjectStore> store = nullptr;  // in place of bucket_uri
  std::chrono::seconds upload_timeout{3600};     // as in RemoteUploaderDownloaderOptions
  std::chrono::seconds store_patience{1800};     // as in RemoteUploaderDownloaderOptions
};

// Uploads a copy of each file in the folder that has changed: every n batches, at the end of each
// epoch and of fit(), and at close(). The object's name is "PREFIX/rank_0/PATH IN THE FOLDER", with
// this process's rank. An existing object is replaced. Links are skipped. Throws as
// RemoteUploaderDownloader does.
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

  // The name that the folder's file `path` has in the store.
  std::string get_uri_for_uploaded_file(const std::string& path) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn

// RemoteUploaderDownloader: a logger destination that keeps files in an object store
// (composer/loggers/remote_uploader_downloader.py).
//
//   options.loggers = {RemoteUploaderDownloader({.bucket_uri = "s3://my-bucket"})};
//   options.save_folder = "checkpoints";       // local, and from there to the bucket
//   options.save_num_checkpoints_to_keep = 0;  // here only until they are there
//
// Whatever goes through Logger::upload_file() goes there in the background: all checkpoints that
// are saved on this machine, and what a program uploads. A pointer (`latest`) is moved only when
// what it names is durable in the store, and never back. docs/checkpoints.md says what a crash
// leaves.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/backend_kwargs.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace cairn {

// Composer's arguments in Composer's order, then cairn's own. There are threads, and no processes.
struct RemoteUploaderDownloaderOptions {
  std::string bucket_uri = {};  // "s3://bucket"; names are those in the bucket
  // Of the bucket's store, in place of what the environment says, by Composer's names:
  // {{"endpoint_url", "https://minio.lan:9000"}, {"region_name", "eu"}}. docs/storage.md lists
  // them; others are a UsageError that names them. Values are never logged.
  BackendKwargs backend_kwargs = {};
  // What an object is called: dist variables and {remote_file_name}.
  std::string file_path_format_string = "{remote_file_name}";
  int num_concurrent_uploads = 1;
  // Where files that may still change are copied to, unnamed, until they are sent: $TMPDIR or else
  // /var/tmp. Checkpoints are not copied.
  std::optional<std::string> upload_staging_folder = std::nullopt;
  int num_attempts = 3;  // at an upload, when its errors may pass

  // In place of bucket_uri: names are the store's.
  std::shared_ptr<ObjectStore> store = nullptr;
  // Files that may wait before upload_file(), and training, waits for one.
  int max_waiting_uploads = 16;
  // How long the end of fit(), and close(), wait for what is on its way. What is not there by then
  // is given up, and named; nothing half is left.
  std::chrono::seconds upload_timeout{3600};
  // How long the store may be away: after num_attempts it is tried again until then.
  std::chrono::seconds store_patience{1800};
};

// upload_file(): AlreadyExistsError at once for a name that is on its way, and at the next event
// for one that is in the store, unless `overwrite`.
class RemoteUploaderDownloader final : public LoggerDestination {
 public:
  // UsageError for numbers below 1, and no bucket; UnsupportedError for a scheme without a store.
  explicit RemoteUploaderDownloader(RemoteUploaderDownloaderOptions options);
  explicit RemoteUploaderDownloader(EmptyBraces)  // ...({.bucket_uri = "s3://bucket"})
      : RemoteUploaderDownloader(RemoteUploaderDownloaderOptions()) {}
  ~RemoteUploaderDownloader() override;
  RemoteUploaderDownloader(RemoteUploaderDownloader&&) noexcept;
  RemoteUploaderDownloader& operator=(RemoteUploaderDownloader&&) noexcept;

  const RemoteUploaderDownloaderOptions& options() const;

  std::string name() const override { return "RemoteUploaderDownloader"; }
  // Makes sure that the store can be written to: StorageError. UsageError the second time.
  void init(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;            // throws what an upload threw
  void epoch_end(State& state, Logger& logger) override;            // as batch_end()
  void fit_end(State& state, Logger& logger) override;              // waits, too
  void eval_standalone_end(State& state, Logger& logger) override;  // as fit_end()
  void predict_end(State& state, Logger& logger) override;          // as fit_end()
  // Waits; what was not uploaded is logged.
  void close(State& state, Logger& logger) override;

  bool can_upload_files() const override { return true; }
  void look_before_uploads(const NameFormat& remote_file_name, const NameFormat& latest) override;
  void upload_file(const FileUpload& file) override;
  void download_file(const std::string& remote_file_name, const std::string& destination,
                     bool overwrite = false) override;
  std::optional<RemotePlace> place_of(const NameFormat& remote_file_name) const override;
  // What the object of that name is called by the store's own tools: "s3://bucket/name".
  std::string get_uri_for_file(const std::string& remote_file_name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn

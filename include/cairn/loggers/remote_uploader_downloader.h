// RemoteUploaderDownloader: a logger destination that keeps files in an object store
// (composer/loggers/remote_uploader_downloader.py).
//
//   options.loggers = {RemoteUploaderDownloader({.bucket_uri = "s3://my-bucket"})};
//   options.save_folder = "checkpoints";       // local, and from there to the bucket
//   options.save_num_checkpoints_to_keep = 0;  // kept locally only until they are in the bucket
//
// Files passed to Logger::upload_file() are uploaded in the background: all checkpoints that are
// saved on this machine, and files that the program passes. The pointer (`latest`) moves only when
// the checkpoint that it names is durable in the store, and never moves back. docs/checkpoints.md
// says what a crash leaves.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/backend_kwargs.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// Composer's arguments in Composer's order, then the options that only cairn has. Uploads use
// threads, not processes.
struct RemoteUploaderDownloaderOptions {
  std::string bucket_uri = {};  // "s3://bucket"; names are names in the bucket
  // Arguments of the bucket's store, by Composer's names. These arguments take precedence over the
  // environment: {{"endpoint_url", "https://minio.lan:9000"}, {"region_name", "eu"}}.
  // docs/storage.md lists them. Other names are a UsageError that lists the allowed ones. Values
  // are never logged.
  BackendKwargs backend_kwargs = {};
  // The name of an object: dist variables and {remote_file_name}.
  std::string file_path_format_string = "{remote_file_name}";
  int num_concurrent_uploads = 1;
  // Folder for unnamed copies of files that may change before they are sent. nullopt: $TMPDIR or
  // else /var/tmp. Checkpoints are not copied.
  std::optional<std::string> upload_staging_folder = std::nullopt;
  int num_attempts = 3;  // attempts per upload, for errors that may pass

  // Used in place of bucket_uri; names are names in the store.
  std::shared_ptr<ObjectStore> store = nullptr;
  // Files that may wait. One more upload_file() waits, and training with it, until there is room.
  int max_waiting_uploads = 16;
  // How long the end of fit(), and close(), wait for uploads. Uploads that have not finished by
  // then are abandoned and named in a message; they leave no partial object.
  std::chrono::seconds upload_timeout{3600};
  // How long cairn retries an upload, after num_attempts, while the store does not answer.
  std::chrono::seconds store_patience{1800};
};

// Unless `overwrite` is set, upload_file() throws AlreadyExistsError at once if an upload of that
// name is under way. If the store has an object of that name, the next event throws
// AlreadyExistsError.
class RemoteUploaderDownloader final : public LoggerDestination {
 public:
  // Throws UsageError for numbers below 1 and for a missing bucket, and UnsupportedError for a
  // scheme without a store.
  explicit RemoteUploaderDownloader(RemoteUploaderDownloaderOptions options);
  explicit RemoteUploaderDownloader(EmptyBraces)  // ...({.bucket_uri = "s3://bucket"})
      : RemoteUploaderDownloader(RemoteUploaderDownloaderOptions()) {}
  ~RemoteUploaderDownloader() override;
  RemoteUploaderDownloader(RemoteUploaderDownloader&&) noexcept;
  RemoteUploaderDownloader& operator=(RemoteUploaderDownloader&&) noexcept;

  const RemoteUploaderDownloaderOptions& options() const;

  std::string name() const override { return "RemoteUploaderDownloader"; }
  // Makes sure that the store can be written to (StorageError). A second call throws UsageError.
  void init(State& state, Logger& logger) override;
  // Throws the error of a failed upload
  void batch_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;  // as batch_end()
  // Waits for uploads, and throws as batch_end()
  void fit_end(State& state, Logger& logger) override;
  void eval_standalone_end(State& state, Logger& logger) override;  // as fit_end()
  void predict_end(State& state, Logger& logger) override;          // as fit_end()
  // Waits for uploads, and logs those that did not finish.
  void close(State& state, Logger& logger) override;

  bool can_upload_files() const override { return true; }
  void look_before_uploads(const NameFormat& remote_file_name, const NameFormat& latest) override;
  void upload_file(const FileUpload& file) override;
  void download_file(const std::string& remote_file_name, const std::string& destination,
                     bool overwrite = false) override;
  std::optional<RemotePlace> place_of(const NameFormat& remote_file_name) const override;
  // The object's name for the store's own tools: "s3://bucket/name".
  std::string get_uri_for_file(const std::string& remote_file_name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn

// Maps Composer's names and events to the queue, which is storage/publish/upload_queue.h.
//
//  1. upload_file() opens the file. A checkpoint is sent as it is: its bytes stay readable even if
//     it is removed. Any other file is copied, without a name; the copy is gone after the upload.
//  2. batch_end and epoch_end throw the error of a failed upload once; fit_end waits for uploads
//     first.
//  3. An object that had a checkpoint's name when the run began is read before it is replaced. A
//     checkpoint of another run stays, and that is an error.
//  4. Uploads that are not done within upload_timeout are abandoned. An abandoned upload is an
//     error of fit_end, and a warning of close(), which then does not wait again.
#include "cairn/loggers/remote_uploader_downloader.h"

#include <mutex>
#include <set>

#include "cairn/checkpoint/names.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "checkpoint/folder/conflict.h"
#include "checkpoint/folder/format_folders.h"
#include "checkpoint/folder/inspect_file.h"
#include "checkpoint/folder/leftovers.h"
#include "checkpoint/names/format_string.h"
#include "core/notes.h"
#include "core/text/printable.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "io/memory/scratch_file.h"
#include "storage/compat/store_with_kwargs.h"
#include "storage/download.h"
#include "storage/listing.h"
#include "storage/place.h"
#include "storage/publish/publish.h"
#include "storage/publish/upload_queue.h"

namespace cairn {
namespace {

std::shared_ptr<const ByteSource> copied(const ByteSource& file, const std::string& folder) {
  ScratchFile copy(folder);
  read_in_blocks(file, [&](ByteView block) { copy.write(block); });
  return source_of(copy.map(), file.name());
}

RemoteUploaderDownloaderOptions checked(RemoteUploaderDownloaderOptions options) {
  if (options.num_concurrent_uploads < 1 || options.num_attempts < 1 ||
      options.max_waiting_uploads < 1) {
    throw UsageError(
        "RemoteUploaderDownloader: num_concurrent_uploads, num_attempts and max_waiting_uploads "
        "are at least 1, not " +
        std::to_string(options.num_concurrent_uploads) + ", " +
        std::to_string(options.num_attempts) + " and " +
        std::to_string(options.max_waiting_uploads));
  }
  if (options.bucket_uri.empty() && options.store == nullptr) {
    throw UsageError("RemoteUploaderDownloader needs a bucket_uri, such as \"s3://bucket\"");
  }
  if (options.backend_kwargs.empty()) {
    options.store = store_of(options.bucket_uri, options.store);
    return options;
  }
  if (options.store != nullptr) {
    throw UsageError(
        "RemoteUploaderDownloader: backend_kwargs apply to bucket_uri, but there is a store, too: "
        "give one of them");
  }
  options.store = store_with_kwargs(options.bucket_uri, options.backend_kwargs);
  return options;
}

}  // namespace

struct RemoteUploaderDownloader::Impl {
  explicit Impl(RemoteUploaderDownloaderOptions o) : options(checked(std::move(o))) {}

  std::string object_name(const std::string& remote_file_name) const {
    return only_name(object_format(NameFormat::of_name(remote_file_name)));
  }
  NameFormat object_format(const NameFormat& remote_file_name) const {
    if (!run_name) {
      throw UsageError(
          "RemoteUploaderDownloader: the run name is not set yet. The event init sets it: give the "
          "logger to a Trainer first");
    }
    const FormatVariables dist = dist_variables(*run_name);
    std::string text;
    for (const FormatPiece& piece : split_format(NameFormat(options.file_path_format_string))) {
      const bool is_file = piece.is_field && piece.name == "remote_file_name";
      text += is_file          ? remote_file_name.text()
              : piece.is_field ? partial_format(NameFormat(piece.text), dist).text()
                               : NameFormat::of_name(piece.text).text();
    }
    text.erase(0, text.find_first_not_of('/'));
    if (options.bucket_uri.empty()) return NameFormat(text);
    return NameFormat(join_path(NameFormat::of_name(options.bucket_uri).text(), text));
  }
  UploadQueue::Clock::time_point deadline() const {
    const auto now = UploadQueue::Clock::now();
    return is_overdue ? now : now + options.upload_timeout;
  }
  void wait() {
    const bool is_done = queue->wait(deadline());
    queue->throw_error();
    if (is_done) return;
    is_overdue = true;
    throw StorageError("RemoteUploaderDownloader: uploads were not done within upload_timeout, " +
                           std::to_string(options.upload_timeout.count()) + " s",
                       0, /*retryable=*/true);
  }

  // Step 3, on a thread of the queue.
  void check_found(const std::string& name) {
    {
      const std::scoped_lock lock(found_mutex);
      if (!found.contains(name)) return;
    }
    const auto there =
        with_retries(retry(), [&] { return inspect_file(options.store, name, Verify::kQuick); });
    if (there.info && there.info->run_name != *run_name) {
      const std::string& whose = there.info->run_name;
      throw AlreadyExistsError(
          options.store->describe(name) + " is a checkpoint of " +
          (whose.empty() ? "no run" : "the run \"" + printable_line(whose) + "\"") +
          ", and this run is \"" + *run_name +
          "\": it is not replaced. Put {run_name} into save_remote_file_name "
          "(CheckpointSaverOptions::remote_file_name), move the object, or set save_overwrite");
    }
    const std::scoped_lock lock(found_mutex);
    found.erase(name);
  }

  RetryPolicy retry() const {
    return {
        .attempts = options.num_attempts,
        .patience = options.store_patience,
        .patience_option = "store_patience of RemoteUploaderDownloader",
        .on_retry = told_by_lines([to = notes](std::string line) { to->add(std::move(line)); })};
  }
  void log_notes(Logger& logger) const {
    for (const std::string& line : notes->take())
      logger.log_message(line);
  }

  RemoteUploaderDownloaderOptions options;
  const std::shared_ptr<Notes> notes = std::make_shared<Notes>();  // from the queue's threads
  std::optional<std::string> run_name;                             // set by init
  std::mutex found_mutex;
  std::set<std::string> found;         // names that existed at the start and were not read yet
  std::unique_ptr<UploadQueue> queue;  // from init to close()
  bool is_overdue = false;
};

RemoteUploaderDownloader::RemoteUploaderDownloader(RemoteUploaderDownloaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
RemoteUploaderDownloader::~RemoteUploaderDownloader() = default;
RemoteUploaderDownloader::RemoteUploaderDownloader(RemoteUploaderDownloader&&) noexcept = default;
RemoteUploaderDownloader& RemoteUploaderDownloader::operator=(RemoteUploaderDownloader&&) noexcept =
    default;

const RemoteUploaderDownloaderOptions& RemoteUploaderDownloader::options() const {
  return impl_->options;
}

void RemoteUploaderDownloader::init(State& state, Logger& /*logger*/) {
  if (impl_->run_name) {
    throw UsageError("RemoteUploaderDownloader is initialized already: give each Trainer its own");
  }
  impl_->run_name = state.run_name;
  const RetryPolicy retry = impl_->retry();
  check_write_access(*impl_->options.store, parent_path(impl_->object_name("checked")), retry);
  impl_->queue = std::make_unique<UploadQueue>(
      impl_->options.store, UploadQueueOptions{.threads = impl_->options.num_concurrent_uploads,
                                               .most_waiting = static_cast<std::size_t>(
                                                   impl_->options.max_waiting_uploads),
                                               .retry = retry});
}

void RemoteUploaderDownloader::batch_end(State& /*state*/, Logger& logger) {
  impl_->log_notes(logger);
  impl_->queue->throw_error();
}
void RemoteUploaderDownloader::epoch_end(State& /*state*/, Logger& logger) {
  impl_->log_notes(logger);
  impl_->queue->throw_error();
}
void RemoteUploaderDownloader::fit_end(State& /*state*/, Logger& /*logger*/) { impl_->wait(); }
void RemoteUploaderDownloader::eval_standalone_end(State& /*state*/, Logger& /*logger*/) {
  impl_->wait();
}
void RemoteUploaderDownloader::predict_end(State& /*state*/, Logger& /*logger*/) { impl_->wait(); }

void RemoteUploaderDownloader::close(State& /*state*/, Logger& logger) {
  if (impl_->queue == nullptr) return;
  const std::vector<std::string> left = impl_->queue->stop(impl_->deadline());
  std::string names;
  for (const std::string& name : left) {
    names += (names.empty() ? "" : ", ") + impl_->options.store->describe(name);
  }
  try {
    impl_->queue->throw_error();
  } catch (const std::exception& e) {
    logger.log_message(std::string("warning: an upload failed: ") + e.what());
  }
  if (!left.empty()) logger.log_message("warning: these objects were not uploaded: " + names);
}

void RemoteUploaderDownloader::look_before_uploads(const NameFormat& remote_file_name,
                                                   const NameFormat& latest) {
  const RetryPolicy retry = impl_->retry();
  const NameFormat pointer = latest.empty() ? NameFormat() : impl_->object_format(latest);
  if (!pointer.empty() && !has_counter(pointer)) {
    // Another job may have the same pointer only if the pointer's name has no counter. With a
    // counter, each save has a pointer of its own.
    impl_->queue->publisher().look_at_pointer(only_name(pointer), retry);
  }
  const NameFormat file = impl_->object_format(remote_file_name);
  const std::size_t fixed = fixed_folders(file);
  const std::string folder =
      fixed == 0 ? "." : only_name(NameFormat(file.text().substr(0, fixed - 1)));
  const NameFormat inside(file.text().substr(fixed));
  with_retries(retry, [&] {
    ObjectStore& store = *impl_->options.store;
    // In a far store this would cost a request per folder, and other ranks may be about to finish
    // their files.
    if (!store.may_be_far()) remove_leftovers_of_formats(store, folder, {inside}, {});
    for (const std::string& name : format_folders(store, folder, inside, {})) {
      const std::string where = name.empty() ? folder : join_path(folder, name);
      for (const ListedName& listed : list_all_if_any(store, where)) {
        const auto info = info_of(store, where, listed);
        if (!info || info->type != ObjectInfo::Type::kObject) continue;
        const std::string object = join_path(where, listed.name);
        impl_->queue->publisher().own().know(object, info->version);
        const std::scoped_lock lock(impl_->found_mutex);
        impl_->found.insert(normal_path(object));
      }
    }
  });
}

void RemoteUploaderDownloader::upload_file(const FileUpload& file) {
  const std::string name = impl_->object_name(file.remote_file_name);
  Upload upload{.name = name, .file = local_store()->open(file.file_path)};
  if (!file.is_immutable) {
    upload.file = copied(*upload.file, impl_->options.upload_staging_folder.value_or(""));
  }
  upload.replace = file.only_known ? Replace::kOwn : Replace::kAll;
  if (!file.overwrite) upload.replace = Replace::kNever;
  if (file.only_known)
    upload.check = [impl = impl_.get(), name] { impl->check_found(normal_path(name)); };
  if (!file.remote_file_name_format.empty()) {
    upload.is_retired = [format = NameFormat(normal_path(
                             impl_->object_format(file.remote_file_name_format).text())),
                         now = file.timestamp](const std::string& object) {
      return is_retired(format, object, {}, now);
    };
  }
  if (!file.latest_remote_file_name.empty()) {
    upload.pointer = impl_->object_name(file.latest_remote_file_name);
  }
  for (const std::string& superfluous : file.remove_afterwards) {
    upload.remove_afterwards.push_back(impl_->object_name(superfluous));
  }
  upload.on_done = file.on_done;
  impl_->queue->submit(std::move(upload));
}

void RemoteUploaderDownloader::download_file(const std::string& remote_file_name,
                                             const std::string& destination, bool overwrite) {
  download(*impl_->options.store, impl_->object_name(remote_file_name), destination,
           {.overwrite = overwrite, .retry = {.attempts = impl_->options.num_attempts}});
}

std::optional<RemotePlace> RemoteUploaderDownloader::place_of(
    const NameFormat& remote_file_name) const {
  return RemotePlace{impl_->options.store, impl_->object_format(remote_file_name)};
}

std::string RemoteUploaderDownloader::get_uri_for_file(const std::string& remote_file_name) const {
  return impl_->options.store->describe(impl_->object_name(remote_file_name));
}

}  // namespace cairn

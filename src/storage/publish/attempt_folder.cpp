#include "storage/publish/attempt_folder.h"

#include <algorithm>

#include "cairn/error.h"

#include "io/durable/atomic_file.h"
#include "io/durable/atomic_folder.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "storage/local/own_files.h"
#include "storage/object_folder.h"
#include "storage/publish/publish.h"

namespace cairn {
namespace {

std::string suffix_of(const AttemptFolderOptions& options) { return "-" + options.id; }

// --- In a file system ----------------------------------------------------------------------------

class FolderOfFiles final : public AttemptFolder {
 public:
  // `leads` is null for every process except the leader.
  FolderOfFiles(FileSystem& files, FilePath path, const AttemptFolderOptions& options,
                std::unique_ptr<AtomicFolder> leads)
      : files_(files),
        path_(std::move(path)),
        temporary_(temporary_path(path_, suffix_of(options))),
        leads_(std::move(leads)) {}

  std::string stored_name(const std::string& name) const override { return name; }

  void write(const FileOfAttempt& file) override {
    const FilePath path(temporary_.as_folder(), file.name);
    const auto writing = begin_file(files_, path, file.expected_bytes);
    written_.push_back(path);
    file.fill(*writing);
    writing->commit();
  }

  void sync() override { files_.sync_folder(temporary_.as_folder()); }

  std::optional<std::uint64_t> size_of(const std::string& stored) const override {
    const auto there = files_.stat(join_path(where(), stored), /*follow=*/false);
    if (!there || there->type != FileInfo::Type::kRegular) return std::nullopt;
    return there->size;
  }

  bool is_there() const override { return files_.stat(where()).has_value(); }

  // Each leader locks its own folder before it looks for others.
  bool has_rival() const override {
    remove_leftovers_of(files_, path_);
    const std::string& own = temporary_.name;
    const std::string_view stem =
        std::string_view(own).substr(0, own.size() - temporary_suffix(own).size());
    return std::ranges::any_of(files_.list(path_.folder.text()), [&](const std::string& name) {
      return name != own && name.size() == own.size() && name.starts_with(stem) &&
             is_temporary_name(name);
    });
  }

  void commit(const std::vector<FileOfAttempt>& files) override {
    for (const FileOfAttempt& file : files) {
      write(file);
    }
    leads_->commit();
  }

  void abandon() override {
    if (leads_ == nullptr) {
      for (const FilePath& path : written_) {
        remove_quietly(files_, path);
      }
    }
    leads_.reset();
  }

  std::string where() const override { return temporary_.text(); }

 private:
  FileSystem& files_;
  const FilePath path_;
  const FilePath temporary_;
  std::unique_ptr<AtomicFolder> leads_;
  std::vector<FilePath> written_;
};

// --- In a store of objects -----------------------------------------------------------------------

class FolderOfObjects final : public AttemptFolder {
 public:
  FolderOfObjects(ObjectStore& store, AttemptFolderOptions options,
                  std::unique_ptr<FolderWrite> leads)
      : store_(store), options_(std::move(options)), leads_(std::move(leads)) {}

  std::string stored_name(const std::string& name) const override {
    const std::size_t dot = std::min(name.rfind('.'), name.size());
    return name.substr(0, dot) + suffix_of(options_) + name.substr(dot);
  }

  void write(const FileOfAttempt& file) override {
    const std::string path = path_of(stored_name(file.name));
    written_.push_back(path);
    write_until_seen(store_,
                     {.name = path,
                      .replace = Replace::kNever,
                      .expected_bytes = file.expected_bytes,
                      .fill = file.fill},
                     options_.retry);
  }

  void sync() override {}

  std::optional<std::uint64_t> size_of(const std::string& stored) const override {
    const auto there =
        with_retries(options_.retry, [&] { return store_.stat(path_of(stored), false); });
    if (!there || there->type != ObjectInfo::Type::kObject) return std::nullopt;
    return there->size;
  }

  bool is_there() const override { return true; }
  bool has_rival() const override { return false; }

  void commit(const std::vector<FileOfAttempt>& files) override {
    for (const FileOfAttempt& file : files) {
      const auto object = leads_->begin(file.name, file.expected_bytes);
      file.fill(*object);
      object->commit();
    }
    is_begun_ = true;
    with_retries(options_.retry, [&] { leads_->commit(); });
  }

  void abandon() override {
    if (is_begun_) return;  // The folder may be a checkpoint by now, even if commit() failed.
    try {
      if (leads_ != nullptr) add_written_by_all();
      for (const std::string& path : written_) {
        store_.remove(path);
      }
    } catch (const Error&) {
      // The next commit() removes what is left.
    }
    leads_.reset();
  }

  std::string where() const override { return store_.describe(options_.path); }

 private:
  std::string path_of(const std::string& stored) const { return join_path(options_.path, stored); }

  void add_written_by_all() {
    if (!store_.stat(options_.path)) return;
    for (const std::string& name : list_names(store_, options_.path)) {
      if (name.find(suffix_of(options_) + ".") == std::string::npos) continue;
      written_.push_back(path_of(name));
    }
  }

  ObjectStore& store_;
  const AttemptFolderOptions options_;
  std::unique_ptr<FolderWrite> leads_;
  std::vector<std::string> written_;
  bool is_begun_ = false;  // whether commit() has begun to publish
};

}  // namespace

std::unique_ptr<AttemptFolder> create_attempt_folder(ObjectStore& store,
                                                     const AttemptFolderOptions& options) {
  const LocalFiles* const local = local_files_of(store);
  if (local == nullptr) {
    if (store.features().flat_names) {
      throw UnsupportedError(store.describe(options.path) +
                             ": several processes cannot write into one folder there");
    }
    return std::make_unique<FolderOfObjects>(store, options, with_retries(options.retry, [&] {
                                               return write_folder_of_objects(store, options.path,
                                                                              options.overwrite);
                                             }));
  }
  FileSystem& files = local->files();
  const FilePath path = local->path_of(options.path);
  files.make_folders(path.folder);
  if (options.overwrite) check_only_own_files(store, options.path);
  auto leads = std::make_unique<AtomicFolder>(files, path, options.overwrite, suffix_of(options));
  return std::make_unique<FolderOfFiles>(files, path, options, std::move(leads));
}

std::unique_ptr<AttemptFolder> join_attempt_folder(ObjectStore& store,
                                                   const AttemptFolderOptions& options) {
  const LocalFiles* const local = local_files_of(store);
  if (local == nullptr) return std::make_unique<FolderOfObjects>(store, options, nullptr);
  auto folder = std::make_unique<FolderOfFiles>(local->files(), local->path_of(options.path),
                                                options, nullptr);
  if (!folder->is_there()) return nullptr;
  return folder;
}

}  // namespace cairn

#include "storage/local/local_store.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "cairn/error.h"

#include "io/durable/atomic_file.h"
#include "io/durable/atomic_folder.h"
#include "io/files/busy_file.h"
#include "io/files/lock_file.h"
#include "storage/listing.h"
#include "storage/local/links.h"
#include "storage/local/recycler.h"
#include "storage/local/removal.h"

namespace cairn {
namespace {

ObjectInfo::Type type_of(FileInfo::Type type) {
  switch (type) {
    case FileInfo::Type::kRegular:
      return ObjectInfo::Type::kObject;
    case FileInfo::Type::kFolder:
      return ObjectInfo::Type::kFolder;
    case FileInfo::Type::kLink:
      return ObjectInfo::Type::kPointer;
    case FileInfo::Type::kOther:
      break;
  }
  return ObjectInfo::Type::kOther;
}

ObjectInfo info_of(const FileInfo& file) {
  ObjectInfo info{.type = type_of(file.type),
                  .size = file.size,
                  .modified = file.modified,
                  .is_private = file.is_private};
  if (info.type != ObjectInfo::Type::kFolder) {
    info.version =
        std::to_string(file.modified.time_since_epoch().count()) + "-" + std::to_string(file.size);
  }
  return info;
}

// The file that stands for the link `name` if there are no symbolic links.
std::string link_file(const std::string& name) { return name + std::string(kLinkFile); }
FilePath link_file(const FilePath& path) { return path.beside(link_file(path.name)); }

// The folders below which no link is followed. Thread-safe.
class Roots {
 public:
  void add(std::string folder) {
    while (folder.size() > 1 && folder.ends_with('/'))
      folder.pop_back();
    const std::lock_guard lock(mutex_);
    roots_.insert(folder.empty() ? "." : std::move(folder));
  }

  // The path of a name below its root. If `name` lies in none of the roots, its own folder is its
  // root.
  FilePath path_of(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    std::optional<FilePath> found;
    for (const std::string& root : roots_) {
      auto path = path_below(root, name);
      const bool is_outer =
          path && (!found || path->folder.below.size() > found->folder.below.size());
      if (is_outer) found = std::move(path);
    }
    return found ? *std::move(found) : FilePath(name);
  }

  FolderPath folder_of(const std::string& name) const {
    const FilePath path = path_of(name);
    const std::lock_guard lock(mutex_);
    return roots_.contains(path.folder.root) ? path.as_folder() : FolderPath(name);
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> roots_;
};

void refuse_versions(const WriteCondition& condition, const std::string& path) {
  if (condition.when != WriteCondition::If::kVersion) return;
  throw UnsupportedError(path +
                         ": a folder of files cannot make the replacement of a file depend " +
                         "on its version");
}

class LocalWrite final : public ObjectWrite {
 public:
  LocalWrite(FileSystem& files, const FilePath& path, const BeginOptions& options,
             std::shared_ptr<Recycler> recycler)
      : recycler_(std::move(recycler)),
        spare_(recycler_ != nullptr ? recycler_->take_spare(path) : nullptr),
        file_(files, path,
              {.overwrite = options.condition.when == WriteCondition::If::kAlways,
               .expected_bytes = options.expected_bytes,
               .is_private = options.is_private,
               .spare = spare_.get()}) {
    spare_.reset();  // Removes the spare if it could not be used.
  }
  void write(ByteView bytes) override { file_.write(bytes); }
  void make_durable() override { file_.sync(); }

 private:
  void publish() override {
    file_.commit();
    if (recycler_ != nullptr) recycler_->remember(file_.path());
  }
  void append(const SharedBytes& bytes) override { file_.write_shared(bytes); }

  std::shared_ptr<Recycler> recycler_;
  std::unique_ptr<SpareFile> spare_;
  AtomicFile file_;
};

// A file of a folder that is being written.
class LocalPartWrite final : public ObjectWrite {
 public:
  explicit LocalPartWrite(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  void write(ByteView bytes) override { file_->write(bytes); }

 private:
  void publish() override {
    file_->sync();
    file_->close();
  }
  void append(const SharedBytes& bytes) override { file_->write_shared(bytes); }

  std::unique_ptr<WritableFile> file_;
};

class LocalFolderWrite final : public FolderWrite {
 public:
  LocalFolderWrite(FileSystem& files, FilePath path, bool overwrite)
      : files_(files), building_(files, std::move(path), overwrite) {}
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     std::uint64_t expected_bytes) override {
    return create(name, {.expected_bytes = expected_bytes});
  }
  std::unique_ptr<ObjectWrite> begin_private(const std::string& name,
                                             std::uint64_t expected_bytes) override {
    return create(name, {.expected_bytes = expected_bytes, .is_private = true});
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) const override {
    return files_.open(join_path(building_.built().text(), name));
  }
  void commit() override { building_.commit(); }

 private:
  std::unique_ptr<ObjectWrite> create(const std::string& name, const CreateOptions& options) {
    return std::make_unique<LocalPartWrite>(building_.create(name, options));
  }

  FileSystem& files_;
  AtomicFolder building_;
};

class LocalStore final : public ObjectStore, public LocalFiles {
 public:
  LocalStore(FileSystem& files, std::shared_ptr<Recycler> recycler)
      : files_(files), recycler_(std::move(recycler)) {}

  StoreFeatures features() const override { return {.fenced_writes = true, .whole_folders = true}; }
  bool may_be_far() const override { return false; }
  bool names_are_paths() const override { return true; }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    if (const auto file = files_.stat(name, follow)) return info_of(*file);
    const auto target = read_link_file(files_, link_file(name));
    if (!target) return std::nullopt;
    const auto file = files_.stat(follow ? *target : link_file(name));
    if (!file) return std::nullopt;
    ObjectInfo info = info_of(*file);
    if (!follow) info.type = ObjectInfo::Type::kPointer;
    return info;
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    try {
      return files_.open(name);
    } catch (const NotFoundError&) {
      const auto target = read_link_file(files_, link_file(name));
      if (!target) throw;
      return files_.open(*target);
    }
  }

  ListPage list(const std::string& folder, const std::string& /*page*/) override {
    std::set<std::string> names;
    for (std::string& name : listed(folder)) {
      if (is_temporary_name(name) || is_being_removed(name) || is_lock_name(name)) continue;
      if (name.ends_with(kLinkFile) && read_link_file(files_, join_path(folder, name))) {
        name.erase(name.size() - kLinkFile.size());
      }
      names.insert(std::move(name));  // A link and a link file may have the same name.
    }
    ListPage page;
    for (const std::string& name : names) {
      page.names.push_back({name});
    }
    return page;
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    refuse_versions(options.condition, name);
    const FilePath path = roots_.path_of(name);
    files_.make_folders(path.folder);
    return std::make_unique<LocalWrite>(files_, path, options, recycler_);
  }

  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    const FilePath path = roots_.path_of(name);
    files_.make_folders(path.folder);
    return std::make_unique<LocalFolderWrite>(files_, path, overwrite);
  }

  bool remove(const std::string& name) override {
    const auto there = files_.stat(name, /*follow=*/false);
    if (there && there->type == FileInfo::Type::kFolder) {
      throw UsageError("cannot remove " + name + " as a file: it is a folder");
    }
    const FilePath path = roots_.path_of(name);
    if (there && recycler_ != nullptr && recycler_->keep_as_spare(path)) return true;
    if (there) return remove_file(files_, path);
    return read_link_file(files_, link_file(name)) && remove_file(files_, link_file(path));
  }

  bool remove_folder(const std::string& name) override {
    const auto there = files_.stat(name, /*follow=*/false);
    if (!there) return false;
    if (there->type != FileInfo::Type::kFolder) {
      throw UsageError("cannot remove " + name + " as a folder: it is a file or a link");
    }
    return cairn::remove_folder(files_, roots_.path_of(name));
  }

  void rename(const std::string& from, const std::string& to) override {
    const FilePath target = roots_.path_of(to);
    files_.rename(roots_.path_of(from), target);
    files_.sync_folder(target.folder);
  }

  std::optional<Pointer> read_pointer(const std::string& name) override {
    if (const auto target = link_target(files_, name)) {
      return Pointer{.target = *target, .version = *target};
    }
    const auto text = files_.stat(link_file(name));
    if (!text || text->type != FileInfo::Type::kRegular) return std::nullopt;
    return Pointer{.target = "", .version = "broken"};
  }

  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    if (expected) {
      const auto now = read_pointer(name);
      if ((now ? now->version : std::string()) != *expected) {
        throw AlreadyExistsError(name + (now ? " points at " + now->target : " is not there") +
                                 ", not " + (expected->empty() ? "at nothing" : "at " + *expected) +
                                 ": another program moved it");
      }
    }
    point_link(files_, target, roots_.path_of(name));
  }

  // Makes a file and removes it: a volume may be read-only even for a user who may write
  // everywhere.
  void prepare(const std::string& folder) override {
    files_.make_folders(roots_.folder_of(folder));
    roots_.add(folder);
    const FilePath probe = temporary_path(FilePath(roots_.folder_of(folder), "probe"));
    files_.create(probe, {.lock = true})->close();
    files_.remove(probe);
  }

  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    if (!of.empty()) {
      remove_leftovers_of(files_, roots_.path_of(join_path(folder, of)));
      return {};
    }
    const FolderPath where = roots_.folder_of(folder);
    std::vector<std::string> removed = cairn::remove_leftovers(files_, where);
    try {
      const std::vector<std::string> finished = finish_removals(files_, where);
      removed.insert(removed.end(), finished.begin(), finished.end());
    } catch (const Error&) {
      // There is no such folder, or this process may not remove files in it. Leftovers do no harm.
    }
    return removed;
  }

  bool restore(const std::string& name) override {
    return finish_replacement_of(files_, roots_.path_of(name));
  }

  FileSystem& files() const override { return files_; }
  FilePath path_of(const std::string& name) const override { return roots_.path_of(name); }

  bool is_being_written(const std::string& name) override {
    const auto there = files_.stat(name);
    if (!there || there->type != FileInfo::Type::kFolder) return cairn::is_being_written(name);
    const auto names = list_all_if_any(*this, name);
    return std::any_of(names.begin(), names.end(), [&](const ListedName& inside) {
      return cairn::is_being_written(join_path(name, inside.name));
    });
  }

 private:
  const LocalFiles* local_files() const override { return this; }

  std::vector<std::string> listed(const std::string& folder) {
    std::vector<std::string> names = files_.list(folder);
    const bool is_half_replaced = std::any_of(
        names.begin(), names.end(), [](const auto& name) { return name_before_replacement(name); });
    if (!is_half_replaced) return names;
    try {
      finish_replacements(files_, roots_.folder_of(folder));
    } catch (const StorageError&) {
      // This process may not write here, for instance. A half-replaced folder is then not listed.
      return names;
    }
    return files_.list(folder);
  }

  FileSystem& files_;
  Roots roots_;
  const std::shared_ptr<Recycler> recycler_;  // null: every object is a new file
};

}  // namespace

std::shared_ptr<ObjectStore> local_store(FileSystem& files) {
  return std::make_shared<LocalStore>(files, nullptr);
}

std::shared_ptr<ObjectStore> recycling_local_store(FileSystem& files) {
  return std::make_shared<LocalStore>(files, std::make_shared<Recycler>(files));
}

const LocalFiles* local_files_of(const ObjectStore& store) { return store.local_files(); }

std::unique_ptr<ObjectWrite> begin_file(FileSystem& files, const FilePath& path,
                                        std::uint64_t expected_bytes) {
  return std::make_unique<LocalPartWrite>(files.create(path, {.expected_bytes = expected_bytes}));
}

std::shared_ptr<ObjectStore> local_store() {
  static const std::shared_ptr<ObjectStore> store = local_store(posix_file_system());
  return store;
}

std::shared_ptr<ObjectStore> recycling_local_store() {
  return recycling_local_store(posix_file_system());
}

}  // namespace cairn

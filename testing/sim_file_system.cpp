#include "testing/sim_file_system.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "cairn/error.h"

#include "io/file_error.h"

namespace cairn::testing {
namespace {

[[noreturn]] void crash() {
  throw SimulatedCrash{};  // NOLINT(hicpp-exception-baseclass): no code may handle it.
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

}  // namespace

// --- Files being written -------------------------------------------------------------------------

class SimFileSystem::File final : public WritableFile {
 public:
  File(SimFileSystem& files, std::shared_ptr<Inode> inode)
      : files_(files), inode_(std::move(inode)) {}
  ~File() override {
    const std::lock_guard lock(files_.mutex_);
    if (!closed_) inode_->locked = false;
  }

  void write(ByteView bytes) override {
    const std::lock_guard lock(files_.mutex_);
    if (closed_) throw_storage_error(EBADF, "cannot write");
    const bool whole = files_.begin_operation();
    if (!whole) bytes = bytes.first(bytes.size() / 2);
    inode_->bytes.replace(std::min(end_, inode_->bytes.size()), bytes.size(), as_text(bytes));
    end_ += bytes.size();
    if (!whole) crash();
  }
  void sync() override {
    const std::lock_guard lock(files_.mutex_);
    if (closed_) throw_storage_error(EBADF, "cannot sync");
    files_.begin_read();
    // Before the sync, because a crash in the sync may leave the file cut off, with old bytes.
    inode_->bytes.resize(end_);
    files_.begin_whole_operation();
    inode_->certain = inode_->bytes;
  }
  void close() override {
    const std::lock_guard lock(files_.mutex_);
    files_.begin_read();
    inode_->locked = false;
    closed_ = true;
  }

 private:
  SimFileSystem& files_;
  std::shared_ptr<Inode> inode_;
  std::size_t end_ = 0;  // Where the written bytes end.
  bool closed_ = false;
};

// --- The file system as processes see it ---------------------------------------------------------

SimFileSystem::SimFileSystem() = default;

void SimFileSystem::begin_read() const {
  if (crashed_) crash();
}

bool SimFileSystem::begin_operation() {
  begin_read();
  crashed_ = ++operations_ == crash_at_;
  return !crashed_;
}

void SimFileSystem::begin_whole_operation() {
  if (!begin_operation()) crash();
}

const SimFileSystem::Entry* SimFileSystem::find(const std::string& path, bool follow) const {
  std::string there = normal_path(path);
  for (int links_left = 40; links_left > 0; --links_left) {
    static const Entry root{};
    const Folder* folder = root_.get();
    const Entry* entry = &root;
    for (const std::string& part : parts_of(there)) {
      if (folder == nullptr) return nullptr;
      const auto found = folder->entries.find(part);
      if (found == folder->entries.end()) return nullptr;
      entry = &found->second;
      folder = entry->folder.get();
    }
    if (!follow || entry->link.empty()) return entry;
    there = normal_path(join_path(parent_path(there), entry->link));
  }
  return nullptr;
}

SimFileSystem::Folder& SimFileSystem::folder_at(const FolderPath& path) const {
  const std::string root = FolderPath(path.root).text();
  Folder* folder = root_.get();
  const auto enter = [&](const Entry* entry) {
    const bool is_link = entry != nullptr && !entry->link.empty();
    if (is_link) throw_storage_error(ELOOP, "a link on the way to " + path.text());
    if (entry == nullptr) throw_storage_error(ENOENT, "no folder " + path.text());
    if (entry->folder == nullptr) throw_storage_error(ENOTDIR, "no folder " + path.text());
    folder = entry->folder.get();
  };
  if (!parts_of(root).empty()) enter(find(root, true));
  for (const std::string& part : parts_of(path.below)) {
    const auto found = folder->entries.find(part);
    enter(found == folder->entries.end() ? nullptr : &found->second);
  }
  return *folder;
}

const SimFileSystem::Entry* SimFileSystem::find(const FilePath& path) const {
  try {
    const Folder& folder = folder_at(path.folder);
    const auto found = folder.entries.find(path.name);
    return found == folder.entries.end() ? nullptr : &found->second;
  } catch (const StorageError& e) {
    if (e.status() != ENOENT && e.status() != ENOTDIR) throw;
    return nullptr;
  }
}

void SimFileSystem::apply(Folder& folder, Change change) {
  for (const auto& [name, entry] : change) {
    if (entry) {
      folder.entries[name] = *entry;
    } else {
      folder.entries.erase(name);
    }
  }
  folder.pending.push_back(std::move(change));
}

std::unique_ptr<WritableFile> SimFileSystem::create(const FilePath& path,
                                                    const CreateOptions& options) {
  const std::lock_guard lock(mutex_);
  begin_whole_operation();
  if (find(path) != nullptr) throw_storage_error(EEXIST, "cannot create " + path.text());
  auto inode = std::make_shared<Inode>();
  inode->locked = options.lock;
  inode->number = inode->modified = inode->changed = ++clock_;
  apply(folder_at(path.folder), {{path.name, Entry{inode, nullptr, {}}}});
  return std::make_unique<File>(*this, std::move(inode));
}

std::unique_ptr<WritableFile> SimFileSystem::overwrite(const FilePath& path,
                                                       std::uint64_t /*expected_bytes*/) {
  const std::lock_guard lock(mutex_);
  begin_read();
  const Entry* entry = nullptr;
  try {
    entry = find(path);
  } catch (const StorageError&) {
    return nullptr;  // A link is on the path.
  }
  if (entry == nullptr || entry->file == nullptr) return nullptr;
  Inode& inode = *entry->file;
  if (inode.locked || inode.opened.use_count() > 1) return nullptr;
  inode.locked = true;
  inode.modified = inode.changed = ++clock_;
  return std::make_unique<File>(*this, entry->file);
}

std::shared_ptr<const ByteSource> SimFileSystem::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  begin_read();
  const Entry* entry = find(path, true);
  if (entry == nullptr) throw NotFoundError("there is no file " + path);
  if (entry->file == nullptr) throw UsageError(path + " is a folder, not a file");
  struct Opened {
    std::string bytes;
    std::shared_ptr<int> token;
  };
  auto opened = std::make_shared<Opened>(Opened{entry->file->bytes, entry->file->opened});
  return source_of({as_bytes(opened->bytes), opened}, path);
}

void SimFileSystem::rename(const FilePath& from, const FilePath& to, bool overwrite) {
  const std::lock_guard lock(mutex_);
  begin_whole_operation();
  const Entry* entry = find(from);
  if (entry == nullptr) throw_storage_error(ENOENT, "cannot rename " + from.text());
  Folder& folder = folder_at(to.folder);
  if (&folder != &folder_at(from.folder)) {
    throw std::logic_error("rename to another folder: " + to.text());
  }
  const Entry* there = find(to);
  if (there != nullptr && there->folder != nullptr) throw UsageError(to.text() + " is a folder");
  if (there != nullptr && !overwrite) throw AlreadyExistsError(to.text() + " exists already");
  const Entry moved = *entry;
  if (moved.file != nullptr) moved.file->changed = ++clock_;
  apply(folder, {{from.name, std::nullopt}, {to.name, moved}});
}

bool SimFileSystem::exchange(const FilePath& one, const FilePath& other) {
  const std::lock_guard lock(mutex_);
  if (!can_exchange_) return false;
  begin_whole_operation();
  const Entry* first = find(one);
  const Entry* second = find(other);
  if (first == nullptr || second == nullptr) {
    throw_storage_error(ENOENT, "cannot exchange " + one.text());
  }
  Folder& folder = folder_at(one.folder);
  if (&folder != &folder_at(other.folder)) {
    throw std::logic_error("exchange between folders: " + other.text());
  }
  apply(folder, {{one.name, *second}, {other.name, *first}});
  return true;
}

std::shared_ptr<void> SimFileSystem::lock_folder(const FolderPath& path) {
  const std::lock_guard lock(mutex_);
  begin_read();
  const Entry* entry = path.below.empty() ? find(path.text(), true)
                                          : find(FilePath(path.parent(), base_name(path.below)));
  if (entry == nullptr || entry->folder == nullptr || entry->folder->locked) return nullptr;
  entry->folder->locked = true;
  return {entry->folder.get(), [this, folder = entry->folder](void*) {
            const std::lock_guard unlock(mutex_);
            folder->locked = false;
          }};
}

void SimFileSystem::make_link(const std::string& target, const FilePath& path) {
  const std::lock_guard lock(mutex_);
  begin_whole_operation();
  if (link_error_ != 0) throw_storage_error(link_error_, "cannot create the link " + path.text());
  if (find(path) != nullptr) throw_storage_error(EEXIST, "cannot create " + path.text());
  apply(folder_at(path.folder), {{path.name, Entry{nullptr, nullptr, target}}});
}

void SimFileSystem::refuse_links(int error) {
  const std::lock_guard lock(mutex_);
  link_error_ = error;
}

std::optional<std::string> SimFileSystem::read_link(const std::string& path) {
  const std::lock_guard lock(mutex_);
  begin_read();
  const Entry* entry = find(path, false);
  if (entry == nullptr || entry->link.empty()) return std::nullopt;
  return entry->link;
}

bool SimFileSystem::remove(const FilePath& path) {
  const std::lock_guard lock(mutex_);
  begin_whole_operation();
  const Entry* entry = find(path);
  if (entry == nullptr) return false;
  if (entry->folder != nullptr) throw_storage_error(EISDIR, "cannot remove " + path.text());
  apply(folder_at(path.folder), {{path.name, std::nullopt}});
  return true;
}

bool SimFileSystem::remove_unlocked(const FilePath& path) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(path);
  if (entry == nullptr || entry->folder == nullptr) {
    const bool locked = entry != nullptr && entry->file != nullptr && entry->file->locked;
    return !locked && remove(path);
  }
  if (entry->folder->locked) return false;
  for (const std::string& name : list(path.text())) {
    remove({path.as_folder(), name});
  }
  return remove_folder(path);
}

bool SimFileSystem::remove_folder(const FilePath& path) {
  const std::lock_guard lock(mutex_);
  begin_whole_operation();
  const Entry* entry = find(path);
  if (entry == nullptr) return false;
  if (entry->folder == nullptr) {
    throw_storage_error(ENOTDIR, "cannot remove the folder " + path.text());
  }
  if (!entry->folder->entries.empty()) {
    throw_storage_error(ENOTEMPTY, "cannot remove the folder " + path.text());
  }
  apply(folder_at(path.folder), {{path.name, std::nullopt}});
  return true;
}

void SimFileSystem::make_folders(const FolderPath& path) {
  const std::lock_guard lock(mutex_);
  begin_read();
  FolderPath there("/");
  const auto enter = [&](const FolderPath& next, const Entry* entry, const std::string& name) {
    if (entry != nullptr && entry->folder == nullptr) {
      throw UsageError(next.text() + " is not a folder");
    }
    if (entry == nullptr) {
      begin_whole_operation();
      apply(folder_at(there), {{name, Entry{nullptr, std::make_shared<Folder>(), {}}}});
      sync_folder(there);
    }
    there = next;
  };
  for (const std::string& part : parts_of(path.root)) {
    const FolderPath next(join_path(there.text(), part));
    enter(next, find(next.text(), true), part);
  }
  for (const std::string& part : parts_of(path.below)) {
    const FilePath next(there, part);
    enter(next.as_folder(), find(next), part);
  }
}

void SimFileSystem::sync_folder(const FolderPath& path) {
  const std::lock_guard lock(mutex_);
  begin_whole_operation();
  Folder& folder = folder_at(path);
  folder.certain = folder.entries;
  folder.pending.clear();
}

std::optional<FileInfo> SimFileSystem::stat(const std::string& path, bool follow) {
  const std::lock_guard lock(mutex_);
  begin_read();
  if (parts_of(path).empty()) return FileInfo{FileInfo::Type::kFolder, 0, {}};
  const Entry* entry = find(path, follow);
  if (entry == nullptr) return std::nullopt;
  FileInfo info;
  if (entry->file != nullptr) {
    info.size = entry->file->bytes.size();
    info.modified =
        std::chrono::system_clock::time_point(std::chrono::seconds(entry->file->modified));
    info.changed =
        std::chrono::system_clock::time_point(std::chrono::seconds(entry->file->changed));
    info.inode = static_cast<std::uint64_t>(entry->file->number);
  } else {
    info.type = entry->folder != nullptr ? FileInfo::Type::kFolder : FileInfo::Type::kLink;
  }
  return info;
}

std::vector<std::string> SimFileSystem::list(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  begin_read();
  const auto info = stat(folder, true);
  if (!info) throw NotFoundError("there is no folder " + folder);
  if (info->type != FileInfo::Type::kFolder) throw UsageError(folder + " is not a folder");
  std::vector<std::string> names;
  for (const auto& [name, entry] : folder_at(folder).entries) {
    names.push_back(name);
  }
  return names;
}

std::uint64_t SimFileSystem::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

void SimFileSystem::crash_at(std::uint64_t operation) {
  const std::lock_guard lock(mutex_);
  crash_at_ = operation;
}

bool SimFileSystem::crashed() const {
  const std::lock_guard lock(mutex_);
  return crashed_;
}

std::string SimFileSystem::describe() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto add = [&](const auto& self, const Folder& folder, const std::string& path) -> void {
    for (const auto& [name, entry] : folder.entries) {
      text += path + name;
      if (entry.file != nullptr) text += " " + std::to_string(entry.file->bytes.size()) + " bytes";
      if (!entry.link.empty()) text += " -> " + entry.link;
      text += "\n";
      if (entry.folder != nullptr) self(self, *entry.folder, path + name + "/");
    }
  };
  add(add, *root_, "/");
  return text;
}

// --- After a crash -------------------------------------------------------------------------------

// One combination of random choices: a number for every file with uncertain bytes and every folder
// with uncertain names. next() goes through all combinations.
class SimFileSystem::Lottery {
 public:
  static constexpr std::uint64_t kNothingLost = ~std::uint64_t{0};

  // `draw` makes the choices at once, in place of next().
  explicit Lottery(std::function<std::uint64_t(std::uint64_t)> draw = nullptr)
      : draw_(std::move(draw)) {}

  // Finds everything uncertain in the tree of `folder`, through all names that each folder may have
  // after the crash.
  void gather(const Folder& folder) {
    if (!folder.pending.empty()) add(&folder, std::uint64_t{1} << folder.pending.size());
    const auto visit = [this](const Entry& entry) {
      if (entry.folder != nullptr) gather(*entry.folder);
      if (entry.file != nullptr && entry.file->certain != entry.file->bytes) {
        add(entry.file.get(), ways_to_lose(*entry.file));
      }
    };
    for (const auto& [name, entry] : folder.certain) {
      visit(entry);
    }
    for (const Change& change : folder.pending) {
      for (const auto& [name, entry] : change) {
        if (entry) visit(*entry);
      }
    }
  }

  bool next() {
    for (auto& [thing, ticket] : tickets_) {
      if (++ticket.number < ticket.count) return true;
      ticket.number = 0;
    }
    return false;
  }

  std::uint64_t number_of(const void* thing) const {
    if (nothing_lost_) return kNothingLost;
    const auto found = tickets_.find(thing);
    return found == tickets_.end() ? kNothingLost : found->second.number;
  }

  void lose_nothing() { nothing_lost_ = true; }

  static std::string bytes_left(const Inode& inode, std::uint64_t number) {
    const std::string& bytes = inode.bytes;
    const std::size_t half = equal_bytes(inode) + (bytes.size() - equal_bytes(inode)) / 2;
    std::string old = inode.certain;  // At the new size.
    old.resize(bytes.size(), '\0');
    switch (number) {
      case 0:
        return inode.certain;
      case 1:
        return bytes.substr(0, half) +
               (half < inode.certain.size() ? inode.certain.substr(half) : std::string());
      case 2:  // The size was written, the data was not.
        return old;
      case 3:
        return bytes.substr(0, half) + std::string(bytes.size() - half, '\0');
      case 4:  // The disk wrote the end first.
        return old.substr(0, half) + bytes.substr(half);
      case 5:
        return bytes;
      default:  // Every second block was written.
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          if (i / 16 % 2 == 0) old[i] = bytes[i];
        }
        return old;
    }
  }

 private:
  // How many leading bytes on the disk equal the bytes that processes see.
  static std::size_t equal_bytes(const Inode& inode) {
    const auto [seen, certain] = std::ranges::mismatch(inode.bytes, inode.certain);
    return static_cast<std::size_t>(seen - inode.bytes.begin());
  }

  // A file that was only appended to has no old bytes that could remain among the new ones.
  static std::uint64_t ways_to_lose(const Inode& inode) {
    return equal_bytes(inode) < inode.certain.size() ? 7 : 6;
  }

  struct Ticket {
    std::uint64_t number = 0;
    std::uint64_t count = 0;
  };

  void add(const void* thing, std::uint64_t count) {
    if (draw_) {
      if (!tickets_.contains(thing)) tickets_[thing] = {draw_(count), count};
      return;
    }
    if (count > 4096) throw std::logic_error("too many unsynced changes to go through all of them");
    tickets_[thing] = {0, count};
  }

  std::map<const void*, Ticket> tickets_;
  bool nothing_lost_ = false;
  const std::function<std::uint64_t(std::uint64_t)> draw_;
};

std::unique_ptr<SimFileSystem> SimFileSystem::copy(const Lottery& lottery) const {
  std::map<const Inode*, std::shared_ptr<Inode>> inodes;
  const auto copy_folder = [&](const auto& self, const Folder& from) -> std::shared_ptr<Folder> {
    const std::uint64_t number = lottery.number_of(&from);
    std::map<std::string, Entry> left = from.certain;
    for (std::size_t i = 0; i < from.pending.size(); ++i) {
      if (number != Lottery::kNothingLost && (number >> i & 1) == 0) continue;
      for (const auto& [name, entry] : from.pending[i]) {
        left.erase(name);
        if (entry) left.emplace(name, *entry);
      }
    }
    for (auto& [name, entry] : left) {
      if (entry.folder != nullptr) entry.folder = self(self, *entry.folder);
      if (entry.file == nullptr) continue;
      std::shared_ptr<Inode>& inode = inodes[entry.file.get()];
      if (inode == nullptr) {
        inode = std::make_shared<Inode>();
        inode->bytes = Lottery::bytes_left(*entry.file, lottery.number_of(entry.file.get()));
        inode->certain = inode->bytes;
        inode->number = entry.file->number;
        inode->modified = entry.file->modified;
        inode->changed = entry.file->changed;
      }
      entry.file = inode;
    }
    auto folder = std::make_shared<Folder>();
    folder->entries = left;
    folder->certain = std::move(left);
    return folder;
  };
  auto result = std::make_unique<SimFileSystem>();
  result->root_ = copy_folder(copy_folder, *root_);
  result->clock_ = clock_;
  result->link_error_ = link_error_;
  return result;
}

std::unique_ptr<SimFileSystem> SimFileSystem::after_kill() const {
  const std::lock_guard lock(mutex_);
  Lottery lottery;
  lottery.lose_nothing();
  return copy(lottery);
}

std::unique_ptr<SimFileSystem> SimFileSystem::after_power_loss(
    const std::function<std::uint64_t(std::uint64_t)>& draw) const {
  const std::lock_guard lock(mutex_);
  Lottery lottery(draw);
  lottery.gather(*root_);
  return copy(lottery);
}

std::vector<std::unique_ptr<SimFileSystem>> SimFileSystem::after_power_loss() const {
  const std::lock_guard lock(mutex_);
  Lottery lottery;
  lottery.gather(*root_);
  std::vector<std::unique_ptr<SimFileSystem>> disks;
  disks.push_back(after_kill());
  do {
    disks.push_back(copy(lottery));
  } while (lottery.next());
  return disks;
}

}  // namespace cairn::testing

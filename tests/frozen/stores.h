// Frozen: a user's program, see CMakeLists.txt. Two stores of a user's own: one that keeps objects
// in files in its own way, and one that wraps another store.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

namespace frozen {

// Objects are files below a folder. Pointers are files whose names end in ".pointer". An object
// appears by a rename. may_be_far() has its default, so cairn treats this store as a far one.
class DiskStore final : public cairn::ObjectStore {
 public:
  explicit DiskStore(std::string root) : root_(std::move(root)) {
    std::filesystem::create_directories(root_);
  }

  cairn::StoreFeatures features() const override { return {.versioned_writes = true}; }
  std::string describe(const std::string& name) const override { return "disk://" + name; }

  std::optional<cairn::ObjectInfo> stat(const std::string& name, bool follow) override {
    const std::scoped_lock lock(mutex_);
    const std::string path = path_of(name);
    if (const auto target = read_text(path + kPointer)) {
      if (follow) return info_of(path_of(*target));
      cairn::ObjectInfo info = info_of(path + kPointer).value();
      info.type = cairn::ObjectInfo::Type::kPointer;
      return info;
    }
    return info_of(path);
  }

  std::shared_ptr<const cairn::ByteSource> open(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    std::string path = path_of(name);
    if (const auto target = read_text(path + kPointer)) path = path_of(*target);
    if (std::filesystem::is_directory(path)) throw cairn::UsageError(describe(name) + ": a folder");
    auto bytes = read_text(path);
    if (!bytes) throw cairn::NotFoundError("there is no " + describe(name));
    const auto owner = std::make_shared<const std::string>(std::move(*bytes));
    return cairn::source_of({cairn::as_bytes(*owner), owner}, describe(name));
  }

  cairn::ListPage list(const std::string& folder, const std::string& /*page*/) override {
    const std::scoped_lock lock(mutex_);
    const std::string path = path_of(folder);
    if (std::filesystem::is_regular_file(path)) throw cairn::UsageError(folder + " is no folder");
    if (!std::filesystem::is_directory(path)) throw cairn::NotFoundError("no folder " + folder);
    cairn::ListPage page;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      std::string name = entry.path().filename();
      if (name.starts_with(kWriting)) continue;
      if (name.ends_with(kPointer)) name.resize(name.size() - std::string(kPointer).size());
      page.names.push_back({.name = name});
    }
    return page;
  }

  std::unique_ptr<cairn::ObjectWrite> begin(const std::string& name,
                                            const cairn::BeginOptions& options) override {
    const std::scoped_lock lock(mutex_);
    check_condition(name, options.condition);
    return std::make_unique<Write>(*this, name, options.condition);
  }

  bool remove(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    const std::string path = path_of(name);
    if (std::filesystem::is_directory(path)) throw cairn::UsageError(describe(name) + ": a folder");
    if (!std::filesystem::remove(path) && !std::filesystem::remove(path + kPointer)) return false;
    remove_empty_folders(path);
    return true;
  }

  bool remove_folder(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    const std::string path = path_of(name);
    if (std::filesystem::is_regular_file(path)) throw cairn::UsageError(name + " is no folder");
    if (std::filesystem::remove_all(path) == 0) return false;
    remove_empty_folders(path);
    return true;
  }

  std::optional<cairn::Pointer> read_pointer(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    return pointer(name);
  }

  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    const std::scoped_lock lock(mutex_);
    const auto before = pointer(name);
    if (expected && (before ? before->version : "") != *expected) {
      throw cairn::AlreadyExistsError(describe(name) + " was moved by another program");
    }
    publish(path_of(name) + kPointer, target);
  }

 private:
  static constexpr const char* kPointer = ".pointer";
  static constexpr const char* kWriting = ".writing-";

  class Write final : public cairn::ObjectWrite {
   public:
    Write(DiskStore& store, std::string name, cairn::WriteCondition condition)
        : store_(store), name_(std::move(name)), condition_(std::move(condition)) {}
    void write(cairn::ByteView bytes) override { bytes_ += cairn::as_text(bytes); }

   private:
    void publish() override {
      const std::scoped_lock lock(store_.mutex_);
      store_.check_condition(name_, condition_);
      store_.publish(store_.path_of(name_), bytes_);
    }

    DiskStore& store_;
    std::string name_;
    cairn::WriteCondition condition_;
    std::string bytes_;
  };

  // All functions below are called with the lock held.

  std::string path_of(const std::string& name) const {
    const std::string path = (std::filesystem::path(root_) / ("./" + name)).lexically_normal();
    return path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  }

  static std::optional<std::string> read_text(const std::string& path) {
    if (!std::filesystem::is_regular_file(path)) return std::nullopt;
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  static std::optional<cairn::ObjectInfo> info_of(const std::string& path) {
    struct stat found = {};
    if (::stat(path.c_str(), &found) != 0) return std::nullopt;
    if (S_ISDIR(found.st_mode)) return cairn::ObjectInfo{cairn::ObjectInfo::Type::kFolder};
    cairn::ObjectInfo info;
    info.size = static_cast<std::uint64_t>(found.st_size);
    info.modified = std::chrono::system_clock::from_time_t(found.st_mtim.tv_sec);
    info.version = std::to_string(found.st_ino) + "-" + std::to_string(found.st_mtim.tv_sec) + "." +
                   std::to_string(found.st_mtim.tv_nsec);
    return info;
  }

  std::optional<cairn::Pointer> pointer(const std::string& name) const {
    const std::string path = path_of(name) + kPointer;
    const auto target = read_text(path);
    if (!target) return std::nullopt;
    return cairn::Pointer{.target = *target, .version = info_of(path)->version};
  }

  void check_condition(const std::string& name, const cairn::WriteCondition& condition) const {
    using If = cairn::WriteCondition::If;
    const auto there = info_of(path_of(name));
    if (there && there->type == cairn::ObjectInfo::Type::kFolder) {
      throw cairn::UsageError(describe(name) + " is a folder");
    }
    const bool holds =
        condition.when == If::kAlways || (condition.when == If::kAbsent && !there) ||
        (condition.when == If::kVersion && there && there->version == condition.version);
    if (!holds) throw cairn::AlreadyExistsError(describe(name) + " is there already, or another");
  }

  void publish(const std::string& path, const std::string& bytes) {
    const std::string temporary = root_ + "/" + kWriting + std::to_string(++written_);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) throw cairn::StorageError("cannot write " + temporary, EIO);
    std::filesystem::rename(temporary, path);
  }

  void remove_empty_folders(const std::string& path) const {
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    for (; folder != root_ && folder.string().size() > root_.size();
         folder = folder.parent_path()) {
      std::error_code error;
      if (!std::filesystem::remove(folder, error)) return;
    }
  }

  const std::string root_;
  std::mutex mutex_;
  std::uint64_t written_ = 0;
};

// Passes every call on to another store, and counts the objects that are begun.
class CountingStore final : public cairn::ObjectStore {
 public:
  explicit CountingStore(std::shared_ptr<cairn::ObjectStore> under) : under_(std::move(under)) {}
  int begun() const { return begun_; }

  cairn::StoreFeatures features() const override { return under_->features(); }
  std::string describe(const std::string& name) const override { return under_->describe(name); }
  std::optional<cairn::ObjectInfo> stat(const std::string& name, bool follow) override {
    return under_->stat(name, follow);
  }
  std::shared_ptr<const cairn::ByteSource> open(const std::string& name) override {
    return under_->open(name);
  }
  cairn::ListPage list(const std::string& folder, const std::string& page) override {
    return under_->list(folder, page);
  }
  std::unique_ptr<cairn::ObjectWrite> begin(const std::string& name,
                                            const cairn::BeginOptions& options) override {
    ++begun_;
    return under_->begin(name, options);
  }
  std::unique_ptr<cairn::FolderWrite> begin_folder(const std::string& name,
                                                   bool overwrite) override {
    ++begun_;
    return under_->begin_folder(name, overwrite);
  }
  bool remove(const std::string& name) override { return under_->remove(name); }
  bool remove_folder(const std::string& name) override { return under_->remove_folder(name); }
  void rename(const std::string& from, const std::string& to) override { under_->rename(from, to); }
  std::optional<cairn::Pointer> read_pointer(const std::string& name) override {
    return under_->read_pointer(name);
  }
  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    under_->move_pointer(name, target, expected);
  }
  void prepare(const std::string& folder) override { under_->prepare(folder); }
  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    return under_->remove_leftovers(folder, of);
  }
  bool restore(const std::string& name) override { return under_->restore(name); }
  bool is_being_written(const std::string& name) override { return under_->is_being_written(name); }

 private:
  const std::shared_ptr<cairn::ObjectStore> under_;
  std::atomic<int> begun_ = 0;
};

// The names in a folder of a store, sorted and joined by blanks.
inline std::string names_in(cairn::ObjectStore& store, const std::string& folder) {
  std::set<std::string> names;
  std::string page;
  do {
    const cairn::ListPage found = store.list(folder, page);
    for (const cairn::ListedName& entry : found.names)
      names.insert(entry.name);
    page = found.next;
  } while (!page.empty());
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace frozen

#include "storage/object_folder.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

bool is_hidden(const std::string& name) { return name.starts_with('.'); }

// What readers know the folder by: of torch.distributed.checkpoint, of safetensors in shards.
bool is_marker(const std::string& name) {
  return name.ends_with(".metadata") || name.ends_with(".index.json");
}

// What only a writer of such a folder makes.
bool is_folder_part(const std::string& name) {
  return is_hidden(name) || name.ends_with(".distcp") || name.ends_with(".safetensors");
}

// Kept in memory until the folder is committed.
class HeldWrite final : public ObjectWrite {
 public:
  HeldWrite(std::map<std::string, SharedBytes>& held, std::string name)
      : held_(held), name_(std::move(name)) {}
  void write(ByteView bytes) override { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

 private:
  void publish() override {
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes_));
    held_.insert_or_assign(name_, SharedBytes{*owner, owner});
  }

  std::map<std::string, SharedBytes>& held_;
  const std::string name_;
  std::vector<std::byte> bytes_;
};

// An object of the folder; notes its size when it is there.
class PartWrite final : public ObjectWrite {
 public:
  PartWrite(std::unique_ptr<ObjectWrite> under, std::map<std::string, std::uint64_t>& written,
            std::string name)
      : under_(std::move(under)), written_(written), name_(std::move(name)) {}
  void write(ByteView bytes) override {
    under_->write(bytes);
    bytes_ += bytes.size();
  }
  void write_at(std::uint64_t offset, SharedBytes bytes) override {
    bytes_ += bytes.view.size();
    under_->write_at(offset, std::move(bytes));
  }

 private:
  void publish() override {
    under_->commit();
    written_.insert_or_assign(name_, bytes_);
  }

  const std::unique_ptr<ObjectWrite> under_;
  std::map<std::string, std::uint64_t>& written_;
  const std::string name_;
  std::uint64_t bytes_ = 0;
};

class ObjectFolder final : public FolderWrite {
 public:
  ObjectFolder(ObjectStore& store, std::string folder, bool overwrite)
      : store_(store), folder_(std::move(folder)) {
    const auto there = store_.stat(folder_, /*follow=*/false);
    if (!there) return;
    if (there->type != ObjectInfo::Type::kFolder) {
      throw UsageError("cannot write the folder " + store_.describe(folder_) +
                       ": a file or link has that name");
    }
    for (const ListedName& listed : list_all(store_, folder_)) {
      if (auto info = info_of(store_, folder_, listed)) before_.emplace(listed.name, *info);
    }
    const bool is_left_behind = std::ranges::all_of(before_, [](const auto& one) {
      return is_folder_part(one.first) && !is_marker(one.first);
    });
    if (overwrite || is_left_behind) return;
    throw AlreadyExistsError(store_.describe(folder_) +
                             " exists already: choose another name, or allow overwriting");
  }

  ~ObjectFolder() override {
    if (is_committed_) return;
    try {
      for (const auto& [name, bytes] : written_) {
        store_.remove(path(name));
      }
    } catch (...) {
      // What is left is no checkpoint, and the next writer of the folder writes over it.
    }
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     std::uint64_t expected_bytes) override {
    if (written_.contains(name) || held_.contains(name)) {
      throw UsageError(folder_ + ": " + name + " is written twice");
    }
    if (is_hidden(name) || is_marker(name)) return std::make_unique<HeldWrite>(held_, name);
    retire();
    auto under = begin_object(name, expected_bytes);
    return std::make_unique<PartWrite>(std::move(under), written_, name);
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) const override {
    const auto held = held_.find(name);
    if (held != held_.end()) return source_of(held->second, path(name));
    return store_.open(path(name));
  }

  void commit() override {
    retire();
    for (const auto& [name, bytes] : written_) {
      check_object(name, bytes);
    }
    for (const bool are_markers : {false, true}) {
      for (const auto& [name, bytes] : held_) {
        if (is_marker(name) == are_markers) put(name, bytes.view);
      }
    }
    is_committed_ = true;
    for (const auto& [name, info] : before_) {
      if (!written_.contains(name) && !held_.contains(name)) remove_old(name, info);
    }
  }

 private:
  std::string path(const std::string& name) const { return join_path(folder_, name); }

  // Step 4, once.
  void retire() {
    if (std::exchange(is_retired_, true)) return;
    for (auto old = before_.begin(); old != before_.end();) {
      const bool is_known_by = is_marker(old->first);
      if (is_known_by) remove_old(old->first, old->second);
      old = is_known_by ? before_.erase(old) : std::next(old);
    }
  }

  void remove_old(const std::string& name, const ObjectInfo& info) {
    if (info.type == ObjectInfo::Type::kFolder) {
      store_.remove_folder(path(name));
    } else {
      store_.remove(path(name));
    }
  }

  // Step 2.
  std::unique_ptr<ObjectWrite> begin_object(const std::string& name, std::uint64_t bytes) {
    BeginOptions options;
    options.expected_bytes = bytes;
    const auto old = before_.find(name);
    if (old == before_.end()) {
      options.condition = WriteCondition::absent();
    } else if (store_.features().versioned_writes) {
      options.condition = WriteCondition::of_version(old->second.version);
    }
    return store_.begin(path(name), options);
  }

  // Step 3.
  void check_object(const std::string& name, std::uint64_t bytes) const {
    const auto there = store_.stat(path(name), /*follow=*/false);
    if (there && there->type == ObjectInfo::Type::kObject && there->size == bytes) return;
    throw StorageError(store_.describe(path(name)) + ": " + std::to_string(bytes) +
                           " bytes were sent, and the store " +
                           (there ? "has " + std::to_string(there->size) : "has no such object"),
                       0, /*retryable=*/true);
  }

  void put(const std::string& name, ByteView bytes) {
    const auto object = begin_object(name, bytes.size());
    object->write(bytes);
    object->commit();
    check_object(name, bytes.size());
  }

  ObjectStore& store_;
  const std::string folder_;
  std::map<std::string, ObjectInfo> before_;      // what was there, without what was retired
  std::map<std::string, std::uint64_t> written_;  // with their bytes
  std::map<std::string, SharedBytes> held_;
  bool is_retired_ = false;
  bool is_committed_ = false;
};

}  // namespace

std::unique_ptr<FolderWrite> write_folder_of_objects(ObjectStore& store, const std::string& name,
                                                     bool overwrite) {
  return std::make_unique<ObjectFolder>(store, name, overwrite);
}

}  // namespace cairn

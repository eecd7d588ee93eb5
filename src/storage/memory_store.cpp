// A store in memory: a map of names, under one lock.
//
//  1. A writer gathers its bytes; commit() puts the object into the map at once.
//  2. Every change takes the next number, which is the version of the object or pointer.
//  3. A folder exists as long as a name begins with it.
#include <algorithm>
#include <mutex>
#include <vector>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

#include "core/existing.h"
#include "io/file.h"

namespace cairn {
namespace {

struct Entry {
  bool is_pointer = false;
  SharedBytes bytes = {};   // of an object
  std::string target = {};  // of a pointer
  std::uint64_t version = 0;
  std::chrono::system_clock::time_point modified = {};

  ObjectInfo info() const {
    return {.type = is_pointer ? ObjectInfo::Type::kPointer : ObjectInfo::Type::kObject,
            .size = bytes.view.size(),
            .modified = modified,
            .version = std::to_string(version)};
  }
};

std::string key_of(const std::string& name) {
  std::string key = normal_path("/" + name);
  key.erase(0, key.find_first_not_of('/'));
  if (key.ends_with('/')) key.pop_back();
  return key;  // "" is the root
}

SharedBytes shared(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {*owner, owner};
}

// Shared by the store and its writers.
class Objects {
 public:
  using Map = std::map<std::string, Entry>;

  template <class Use>
  auto locked(const Use& use) {
    const std::scoped_lock lock(mutex_);
    return use(map_);
  }

  // The caller holds the lock.
  Entry made(SharedBytes bytes) { return stamped({.bytes = std::move(bytes)}); }
  Entry pointing_at(std::string target) {
    return stamped({.is_pointer = true, .target = std::move(target)});
  }

 private:
  Entry stamped(Entry entry) {
    entry.version = ++version_;
    entry.modified = std::chrono::system_clock::now();
    return entry;
  }

  std::mutex mutex_;
  Map map_;
  std::uint64_t version_ = 0;
};

// The names in the folder `key`, which are next to each other.
std::pair<Objects::Map::iterator, Objects::Map::iterator> inside(Objects::Map& map,
                                                                 const std::string& key) {
  if (key.empty()) return {map.begin(), map.end()};
  // '0' is the character after '/'.
  return {map.lower_bound(key + "/"), map.lower_bound(key + "0")};
}

bool is_folder(Objects::Map& map, const std::string& key) {
  const auto [begin, end] = inside(map, key);
  return key.empty() || begin != end;
}

// Throws if a folder has the name, or if a part of the path is a file.
void check_place(Objects::Map& map, const std::string& key) {
  if (is_folder(map, key)) throw UsageError("cannot write " + key + ": a folder has that name");
  for (std::size_t slash = key.find('/'); slash != std::string::npos;
       slash = key.find('/', slash + 1)) {
    if (map.contains(key.substr(0, slash))) {
      throw UsageError("cannot write " + key + ": " + key.substr(0, slash) + " is no folder");
    }
  }
}

void check_condition(const Objects::Map& map, const std::string& key,
                     const WriteCondition& condition) {
  const auto there = map.find(key);
  if (condition.when == WriteCondition::If::kAbsent && there != map.end()) {
    refuse_existing(key);
  }
  if (condition.when == WriteCondition::If::kVersion &&
      (there == map.end() || there->second.info().version != condition.version)) {
    throw AlreadyExistsError(key + " no longer has version " + condition.version +
                             ": another program replaced it");
  }
}

class GatheredBytes final : public ByteSink {
 public:
  void write(ByteView bytes) override { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  SharedBytes take() { return shared(std::move(bytes_)); }

 private:
  std::vector<std::byte> bytes_;
};

class MemoryWrite final : public ObjectWrite {
 public:
  MemoryWrite(std::shared_ptr<Objects> objects, std::string key, WriteCondition condition)
      : objects_(std::move(objects)), key_(std::move(key)), condition_(std::move(condition)) {}
  void write(ByteView bytes) override { bytes_.write(bytes); }

 private:
  void publish() override {
    objects_->locked([&](Objects::Map& map) {
      check_place(map, key_);
      check_condition(map, key_, condition_);
      map[key_] = objects_->made(bytes_.take());
    });
  }

  std::shared_ptr<Objects> objects_;
  std::string key_;
  WriteCondition condition_;
  GatheredBytes bytes_;
};

void check_folder_place(Objects::Map& map, const std::string& key, bool overwrite) {
  if (map.contains(key)) {
    throw UsageError("cannot write the folder " + key + ": a file or link has that name");
  }
  if (!overwrite && is_folder(map, key)) {
    refuse_existing(key);
  }
}

// An object of a folder that is being written.
class MemoryPartWrite final : public ObjectWrite {
 public:
  MemoryPartWrite(std::map<std::string, SharedBytes>& added, std::string folder, std::string name)
      : added_(added), folder_(std::move(folder)), name_(std::move(name)) {}
  void write(ByteView bytes) override { bytes_.write(bytes); }

 private:
  void publish() override {
    if (!added_.emplace(name_, bytes_.take()).second) {
      throw UsageError(folder_ + ": " + name_ + " is written twice");
    }
  }

  std::map<std::string, SharedBytes>& added_;
  std::string folder_;
  std::string name_;
  GatheredBytes bytes_;
};

class MemoryFolderWrite final : public FolderWrite {
 public:
  MemoryFolderWrite(std::shared_ptr<Objects> objects, std::string key, bool overwrite)
      : objects_(std::move(objects)), key_(std::move(key)), overwrite_(overwrite) {}

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     std::uint64_t /*expected_bytes*/) override {
    return std::make_unique<MemoryPartWrite>(added_, key_, name);
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) const override {
    const auto found = added_.find(name);
    if (found == added_.end()) throw NotFoundError(key_ + " has no file " + name);
    return source_of(found->second, key_ + "/" + name);
  }
  void commit() override {
    objects_->locked([&](Objects::Map& map) {
      check_folder_place(map, key_, overwrite_);
      const auto [begin, end] = inside(map, key_);
      map.erase(begin, end);
      for (auto& [name, bytes] : added_) {
        map[key_ + "/" + name] = objects_->made(std::move(bytes));
      }
    });
  }

 private:
  std::shared_ptr<Objects> objects_;
  std::string key_;
  bool overwrite_;
  std::map<std::string, SharedBytes> added_;
};

class MemoryStore final : public ObjectStore {
 public:
  StoreFeatures features() const override {
    return {.versioned_writes = true,
            .fenced_writes = true,
            .fenced_pointers = true,
            .whole_folders = true};
  }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return objects_->locked([&](Objects::Map& map) -> std::optional<ObjectInfo> {
      const std::string key = follow ? followed(map, key_of(name)) : key_of(name);
      const auto there = map.find(key);
      if (there != map.end()) return there->second.info();
      if (is_folder(map, key)) return ObjectInfo{.type = ObjectInfo::Type::kFolder};
      return std::nullopt;
    });
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return objects_->locked([&](Objects::Map& map) {
      const std::string key = followed(map, key_of(name));
      const auto there = map.find(key);
      if (there != map.end()) return source_of(there->second.bytes, name);
      if (is_folder(map, key)) throw UsageError(name + " is a folder, not a file");
      throw NotFoundError("there is no file " + name);
    });
  }

  // `first` is the first key of the page.
  ListPage list(const std::string& folder, const std::string& first) override {
    return objects_->locked([&](Objects::Map& map) {
      const std::string key = key_of(folder);
      if (map.contains(key)) throw UsageError(folder + " is not a folder");
      const std::size_t prefix = key.empty() ? 0 : key.size() + 1;
      auto [entry, end] = inside(map, key);
      if (entry == end && !key.empty()) throw NotFoundError("there is no folder " + folder);
      if (!first.empty()) entry = map.lower_bound(first);
      ListPage page;
      for (; entry != end && page.names.size() < kPage;) {
        const std::size_t slash = entry->first.find('/', prefix);
        const std::string name = entry->first.substr(prefix, slash - prefix);
        if (slash == std::string::npos) {
          page.names.push_back({name, entry->second.info()});
          ++entry;
        } else {
          page.names.push_back({name, ObjectInfo{.type = ObjectInfo::Type::kFolder}});
          entry = inside(map, entry->first.substr(0, slash)).second;
        }
      }
      if (entry != end) page.next = entry->first;
      return page;
    });
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    const std::string key = key_of(name);
    objects_->locked([&](Objects::Map& map) {
      check_place(map, key);
      check_condition(map, key, options.condition);
    });
    return std::make_unique<MemoryWrite>(objects_, key, options.condition);
  }

  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    const std::string key = key_of(name);
    objects_->locked([&](Objects::Map& map) { check_folder_place(map, key, overwrite); });
    return std::make_unique<MemoryFolderWrite>(objects_, key, overwrite);
  }

  bool remove(const std::string& name) override {
    return objects_->locked([&](Objects::Map& map) {
      const std::string key = key_of(name);
      if (map.erase(key) > 0) return true;
      if (is_folder(map, key)) {
        throw UsageError("cannot remove " + name + " as a file: it is a folder");
      }
      return false;
    });
  }

  bool remove_folder(const std::string& name) override {
    return objects_->locked([&](Objects::Map& map) {
      const std::string key = key_of(name);
      if (map.contains(key)) {
        throw UsageError("cannot remove " + name + " as a folder: it is a file or a link");
      }
      const auto [begin, end] = inside(map, key);
      const bool was_there = begin != end;
      map.erase(begin, end);
      return was_there;
    });
  }

  void rename(const std::string& from, const std::string& to) override {
    objects_->locked([&](Objects::Map& map) {
      const auto there = map.find(key_of(from));
      if (there == map.end()) throw NotFoundError("there is no file " + from);
      check_place(map, key_of(to));
      Entry entry = std::move(there->second);
      map.erase(there);
      map[key_of(to)] = std::move(entry);
    });
  }

  std::optional<Pointer> read_pointer(const std::string& name) override {
    return objects_->locked([&](Objects::Map& map) -> std::optional<Pointer> {
      const auto there = map.find(key_of(name));
      if (there == map.end() || !there->second.is_pointer) return std::nullopt;
      return Pointer{.target = there->second.target, .version = there->second.info().version};
    });
  }

  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    objects_->locked([&](Objects::Map& map) {
      const std::string key = key_of(name);
      check_place(map, key);
      const auto there = map.find(key);
      const std::string version = there == map.end() ? std::string() : there->second.info().version;
      if (expected && version != *expected) {
        throw AlreadyExistsError(name + (version.empty() ? " is not there" : " is of version ") +
                                 version + ", not of version \"" + *expected +
                                 "\": another program moved it");
      }
      map[key] = objects_->pointing_at(target);
    });
  }

 private:
  static constexpr std::size_t kPage = 1000;  // like a bucket

  static std::string followed(const Objects::Map& map, const std::string& key) {
    const auto there = map.find(key);
    return there != map.end() && there->second.is_pointer ? key_of(there->second.target) : key;
  }

  std::shared_ptr<Objects> objects_ = std::make_shared<Objects>();
};

}  // namespace

std::shared_ptr<ObjectStore> memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace cairn

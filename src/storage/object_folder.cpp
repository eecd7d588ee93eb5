#include "storage/object_folder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "core/existing.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

using Contents = std::map<std::string, ObjectInfo>;

bool is_hidden(const std::string& name) { return name.starts_with('.'); }

// In `pattern`, 0 is one digit, # one or more digits, and X one or more hexadecimal digits.
bool fits(std::string_view name, std::string_view pattern) {
  for (const char wanted : pattern) {
    std::size_t fitting = name.starts_with(wanted) ? 1 : 0;
    if (wanted == '0' || wanted == '#') {
      const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
      fitting = wanted == '0' ? std::min<std::size_t>(digits, 1) : digits;
    } else if (wanted == 'X') {
      fitting = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
    }
    if (fitting == 0) return false;
    name.remove_prefix(fitting);
  }
  return name.empty();
}

// Whether cairn's writers of such folders make this file, apart from the markers.
bool is_part(const std::string& name, const ObjectInfo& info) {
  return info.type == ObjectInfo::Type::kObject &&
         (fits(name, "__#_#.distcp") || fits(name, "__#_#-X.distcp") ||  // of an attempt
          fits(name, "model-0000#-of-0000#.safetensors") || name == ".cairn_manifest.json" ||
          name == ".cairn_published");
}

// Files that mark checkpoints of forms that cairn does not write. If such a file lay beside a new
// checkpoint, readers would take the file for the checkpoint. But cairn may not remove such files.
bool is_of_another_kind(const std::string& name) {
  return name == "model.safetensors" || name == "pytorch_model.bin" ||
         (name.starts_with("shard-") && name.ends_with(".safetensors"));
}

Contents contents_of(ObjectStore& store, const std::string& folder) {
  Contents contents;
  for (const ListedName& listed : list_all(store, folder)) {
    if (auto info = info_of(store, folder, listed)) contents.emplace(listed.name, *info);
  }
  return contents;
}

FolderState state_of(const Contents& contents) {
  auto state = FolderState::kLeftBehind;
  for (const auto& [name, info] : contents) {
    if (!is_folder_file(name, info)) return FolderState::kOther;
    if (is_folder_marker(name)) state = FolderState::kMarked;
  }
  return state;
}

// A file that is kept in memory until the folder is committed.
class HeldWrite final : public ObjectWrite {
 public:
  HeldWrite(std::map<std::string, SharedBytes>& held, std::string name,
            std::uint64_t expected_bytes)
      : held_(held), name_(std::move(name)) {
    bytes_.reserve(expected_bytes);
  }
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

// An object of the folder.
class PartWrite final : public ObjectWrite {
 public:
  using Commit = std::function<void(ObjectWrite& object, std::uint64_t bytes)>;

  PartWrite(std::unique_ptr<ObjectWrite> under, Commit commit)
      : under_(std::move(under)), commit_(std::move(commit)) {}
  void write(ByteView bytes) override {
    under_->write(bytes);
    bytes_ += bytes.size();
  }
  void write_at(std::uint64_t offset, SharedBytes bytes) override {
    bytes_ += bytes.view.size();
    under_->write_at(offset, std::move(bytes));
  }
  std::size_t piece_bytes() const override { return under_->piece_bytes(); }

 private:
  void publish() override { commit_(*under_, bytes_); }

  const std::unique_ptr<ObjectWrite> under_;
  const Commit commit_;
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
    before_ = contents_of(store_, folder_);
    if (!overwrite && state_of(before_) != FolderState::kLeftBehind) {
      refuse_existing(store_.describe(folder_));
    }
    for (auto& [name, info] : before_) {
      // Lists may spell a version differently than stat(), which is_unchanged() uses.
      if (const auto now = store_.stat(path(name), /*follow=*/false)) info = *now;
      const bool is_folder = info.type == ObjectInfo::Type::kFolder;
      if (!is_folder && !is_of_another_kind(name)) continue;
      throw UsageError("cannot replace " + store_.describe(folder_) + ": it holds the " +
                       (is_folder ? "folder " : "checkpoint ") + name + "; remove it first");
    }
  }

  ~ObjectFolder() override {
    if (is_published_) return;
    try {
      if (has_new_marker()) return;
      for (const auto& [name, info] : written_) {
        if (is_unchanged(name, info)) store_.remove(path(name));
      }
    } catch (...) {
      // The remaining objects are no checkpoint, and the next writer of the folder overwrites them.
    }
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     std::uint64_t expected_bytes) override {
    check_is_new(name);
    if (is_hidden(name) || is_folder_marker(name)) {
      return std::make_unique<HeldWrite>(held_, name, expected_bytes);
    }
    return std::make_unique<PartWrite>(begin_object(name, expected_bytes),
                                       [this, name](ObjectWrite& object, std::uint64_t bytes) {
                                         publish(name, bytes, [&] { object.commit(); });
                                       });
  }

  bool copy(const std::string& from, const std::string& name,
            const std::string& from_version) override {
    if (is_hidden(name) || is_folder_marker(name) || !store_.features().server_copies) return false;
    check_is_new(name);
    const auto source = store_.stat(from);
    if (!source) throw NotFoundError("there is no object " + store_.describe(from));
    publish(name, source->size,
            [&] { store_.copy(from, path(name), condition_for(name), from_version); });
    return true;
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) const override {
    const auto held = held_.find(name);
    if (held != held_.end()) return source_of(held->second, path(name));
    return store_.open(path(name));
  }

  // After a temporary error, another call continues where this one ended.
  void commit() override {
    for (const auto& [name, info] : written_) {
      if (look_at(name, info.size).version != info.version) refuse(name);
    }
    for (const bool are_markers : {false, true}) {
      if (are_markers) remove_old_markers();
      for (const auto& [name, bytes] : held_) {
        const bool is_next = is_folder_marker(name) == are_markers && !written_.contains(name);
        if (is_next) put(name, bytes.view);
      }
    }
    is_published_ = true;
    for (const auto& [name, info] : before_) {
      const bool is_superseded = is_part(name, info) && !written_.contains(name);
      if (is_superseded && is_unchanged(name, info)) store_.remove(path(name));
    }
  }

 private:
  std::string path(const std::string& name) const { return join_path(folder_, name); }

  void check_is_new(const std::string& name) const {
    if (!written_.contains(name) && !held_.contains(name)) return;
    throw UsageError(folder_ + ": " + name + " is written twice");
  }

  // Whether the object still has the state `info`.
  bool is_unchanged(const std::string& name, const ObjectInfo& info) const {
    const auto now = store_.stat(path(name), /*follow=*/false);
    return now && now->type == info.type && now->size == info.size && now->version == info.version;
  }

  [[noreturn]] void refuse(const std::string& name) const {
    throw AlreadyExistsError(store_.describe(path(name)) +
                             " was changed: another program writes this folder, too");
  }

  // Whether the folder has a marker that it did not have in the beginning. If so, the folder is
  // complete.
  bool has_new_marker() const {
    const Contents now = contents_of(store_, folder_);
    return std::ranges::any_of(now, [&](const auto& one) {
      const auto old = before_.find(one.first);
      return is_folder_marker(one.first) &&
             (old == before_.end() || !is_unchanged(one.first, old->second));
    });
  }

  // Step 4.
  void remove_old_markers() {
    for (auto old = before_.begin(); old != before_.end();) {
      if (!is_folder_marker(old->first)) {
        ++old;
        continue;
      }
      if (!is_unchanged(old->first, old->second)) refuse(old->first);
      store_.remove(path(old->first));
      old = before_.erase(old);
    }
  }

  // Makes an object visible, and notes its state.
  void publish(const std::string& name, std::uint64_t bytes, const std::function<void()>& commit) {
    const auto old = before_.find(name);
    if (old != before_.end()) {
      if (!is_unchanged(name, old->second)) refuse(name);
      remove_old_markers();
    }
    if (is_folder_marker(name)) is_published_ = true;
    commit();
    written_.insert_or_assign(name, look_at(name, bytes));
  }

  // Step 2.
  WriteCondition condition_for(const std::string& name) const {
    const auto old = before_.find(name);
    if (old == before_.end()) return WriteCondition::absent();
    if (!store_.features().versioned_writes) return {};
    return WriteCondition::of_version(old->second.version);
  }

  std::unique_ptr<ObjectWrite> begin_object(const std::string& name, std::uint64_t bytes) {
    BeginOptions options;
    options.expected_bytes = bytes;
    options.condition = condition_for(name);
    return store_.begin(path(name), options);
  }

  // Step 3.
  ObjectInfo look_at(const std::string& name, std::uint64_t bytes) const {
    const auto there = store_.stat(path(name), /*follow=*/false);
    if (there && there->type == ObjectInfo::Type::kObject && there->size == bytes) return *there;
    throw StorageError(store_.describe(path(name)) + ": " + std::to_string(bytes) +
                           " bytes were sent, and the store " +
                           (there ? "has " + std::to_string(there->size) : "has no such object"),
                       0, /*retryable=*/true);
  }

  // Writes an object. An earlier attempt may have written the object although its answer was lost.
  void put(const std::string& name, ByteView bytes) try {
    const auto object = begin_object(name, bytes.size());
    object->write(bytes);
    publish(name, bytes.size(), [&] { object->commit(); });
  } catch (const StorageError&) {
    failed_.insert(name);
    throw;
  } catch (const AlreadyExistsError&) {
    const auto there = failed_.contains(name) ? store_.open(path(name)) : nullptr;
    const bool is_ours = there && there->size() == bytes.size() &&
                         std::ranges::equal(there->view(0, bytes.size()).view, bytes);
    if (!is_ours) throw;
    written_.insert_or_assign(name, look_at(name, bytes.size()));
  }

  ObjectStore& store_;
  const std::string folder_;
  Contents before_;   // the initial contents, without removed markers
  Contents written_;  // state of each object right after its commit
  std::map<std::string, SharedBytes> held_;
  std::set<std::string> failed_;  // objects that put() failed to write
  bool is_published_ = false;     // A marker was begun: the folder stays, even if the write failed.
};

}  // namespace

bool is_folder_marker(const std::string& name) {
  const bool is_index = name.find(".safetensors.index.") != std::string::npos ||
                        name.find(".bin.index.") != std::string::npos;
  return name == ".metadata" || fits(name, "__#.metadata") || (is_index && name.ends_with(".json"));
}

bool is_folder_file(const std::string& name, const ObjectInfo& info) {
  return is_part(name, info) || (is_folder_marker(name) && info.type == ObjectInfo::Type::kObject);
}

FolderState state_of_folder(ObjectStore& store, const std::string& name) {
  return state_of(contents_of(store, name));
}

std::unique_ptr<FolderWrite> write_folder_of_objects(ObjectStore& store, const std::string& name,
                                                     bool overwrite) {
  return std::make_unique<ObjectFolder>(store, name, overwrite);
}

}  // namespace cairn

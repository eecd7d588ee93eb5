// Copies a checkpoint byte for byte.
//
// clang-format off
//  1. The version of each object of the checkpoint is noted.
//  2. The checkpoint is opened and verified. A checkpoint that comes from a far store to this
//     machine is written in the same pass (CopiedSource), so that it is read once. Otherwise
//     nothing is written before the whole checkpoint is verified: an upload costs more than a
//     second read of local files.
//  3. The bytes of each object that step 2 has not written are written under the new name. Within
//     one bucket the server copies the object, but only if it still has the version of step 1.
//  4. Before an object is committed, its version is read once more. If it has changed since step 1,
//     the object is not the one that was verified, and nothing is published.
//  5. Commit: a file at once; a folder when all of its objects are written (FolderWrite).
// clang-format on
#include "cairn/checkpoint/copy.h"

#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/folder/copied_source.h"
#include "checkpoint/names/extension.h"
#include "checkpoint/open/verify/check_whole.h"
#include "core/out_of_memory.h"
#include "io/file.h"
#include "io/uri.h"
#include "storage/forwarding_store.h"
#include "storage/listing.h"
#include "storage/local/own_files.h"
#include "storage/place.h"
#include "storage/publish/publish.h"

namespace cairn {
namespace {

// Returns the last part of the name: "a.pt", also for "https://host/a.pt?signature=...".
std::string own_name(const std::string& place) {
  constexpr std::string_view kQuery = "?...";
  std::string name = base_name(shown_place(place));
  if (name.ends_with(kQuery)) name.resize(name.size() - kQuery.size());
  return name;
}

// Whether both names are in one store, and the server of this store can copy.
bool is_copied_there(const std::string& from, const std::string& to, const CopyOptions& options,
                     const ObjectStore& store) {
  if (options.from_store != options.to_store) return false;
  if (options.from_store == nullptr && split_uri(from).root() != split_uri(to).root()) return false;
  return store.features().server_copies;
}

struct ObjectToCopy {
  std::string name;  // path in the folder; empty for a file
  std::uint64_t size = 0;
  std::string version;
  bool is_private = false;  // then the copy is private, too
};

// An object that is being written into a folder. The object is begun with its first byte and
// committed with its last byte, so that only few objects of a large folder are open at a time.
class PartOfFolder final : public ByteSink {
 public:
  PartOfFolder(FolderWrite& folder, const ObjectToCopy& object) : folder_(folder), object_(object) {
    if (object_.size == 0) write({});
  }
  void write(ByteView bytes) override {
    if (out_ == nullptr) {
      out_ = object_.is_private ? folder_.begin_private(object_.name, object_.size)
                                : folder_.begin(object_.name, object_.size);
    }
    out_->write(bytes);
    written_ += bytes.size();
    if (written_ != object_.size) return;
    out_->commit();
    out_.reset();
  }

 private:
  FolderWrite& folder_;
  const ObjectToCopy& object_;
  std::uint64_t written_ = 0;
  std::unique_ptr<ObjectWrite> out_;
};

// Passes bytes on and reports them to on_progress.
class ProgressSink final : public ByteSink {
 public:
  ProgressSink(ByteSink& under, const CopyOptions& options) : under_(under), options_(options) {}
  void write(ByteView bytes) override {
    under_.write(bytes);
    if (options_.on_progress) options_.on_progress(bytes.size());
  }

 private:
  ByteSink& under_;
  const CopyOptions& options_;
};

[[noreturn]] void refuse_replaced(const std::string& shown) {
  throw StorageError(shown + " was replaced while it was copied; nothing was written. Try again", 0,
                     /*retryable=*/false);
}

// A store whose added objects are opened as CopiedSources. All other objects are opened as they
// are.
class CopiedStore final : public ForwardingStore {
 public:
  explicit CopiedStore(std::shared_ptr<ObjectStore> under) : ForwardingStore(std::move(under)) {}

  // The object of that name and size will be written to `out`, which must outlive the CopiedSource.
  void add(const std::string& name, std::uint64_t size, ByteSink& out) {
    copies_.emplace(normal_path(name), Copied{size, out, nullptr});
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    const auto copied = open_copied(name);
    return copied != nullptr ? copied : under_->open(name);
  }
  // Returns the same source each time; nullptr for a name that was not added.
  std::shared_ptr<const CopiedSource> open_copied(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(normal_path(name));
    if (found == copies_.end()) return nullptr;
    Copied& copied = found->second;
    if (copied.source == nullptr) {
      auto under = under_->open(name);
      if (under->size() != copied.size) refuse_replaced(describe(name));
      copied.source = std::make_shared<const CopiedSource>(std::move(under), copied.out);
    }
    return copied.source;
  }
  void close(const std::string& name) { copies_.erase(normal_path(name)); }

 private:
  struct Copied {
    std::uint64_t size;
    ByteSink& out;
    std::shared_ptr<const CopiedSource> source;
  };

  std::mutex mutex_;
  std::map<std::string, Copied> copies_;
};

class Copy {
 public:
  Copy(const std::string& from, const std::string& to, const CopyOptions& options)
      : options_(options),
        source_(store_of(from, options.from_store)),
        target_(store_of(to, options.to_store)),
        from_(from),
        to_(to.ends_with('/') ? join_path(to, own_name(from)) : to),
        is_copied_there_(is_copied_there(from, to, options, *source_)) {
    const auto pointer = source_->read_pointer(from);
    if (pointer && !pointer->is_broken()) from_ = pointer->target;
  }

  CopyResult run() {
    const auto there = source_->stat(from_);
    if (!there) throw NotFoundError(shown(from_) + " does not exist");
    is_folder_ = there->type == ObjectInfo::Type::kFolder;
    check_names();
    note(*there);
    if (!is_on_the_way()) check_content(source_);
    is_folder_ ? copy_folder() : copy_file();
    CopyResult result{.path = to_, .objects = noted_objects_.size()};
    for (const ObjectToCopy& object : noted_objects_) {
      result.bytes += object.size;
    }
    return result;
  }

 private:
  std::string shown(const std::string& name) const { return source_->describe(name); }

  std::string path_of(const ObjectToCopy& object) const {
    return object.name.empty() ? from_ : join_path(from_, object.name);
  }

  void check_names() const {
    const std::string from = shown(normal_path(from_));
    const std::string to = target_->describe(normal_path(to_));
    const bool is_elsewhere = options_.from_store != options_.to_store;
    if (!is_elsewhere && (from == to || to.starts_with(from + "/") || from.starts_with(to + "/"))) {
      throw UsageError("cannot copy " + shown(from_) + " to " + target_->describe(to_) +
                       ": one of them is, or contains, the other");
    }
    if (meant_extension(own_name(from_)) != meant_extension(own_name(to_))) {
      throw UsageError(target_->describe(to_) + " names another format than " + shown(from_) +
                       "; `cairn copy` keeps the bytes, `cairn convert` makes other formats");
    }
  }

  // Step 1.
  void note(const ObjectInfo& info) {
    if (!is_folder_) {
      noted_objects_.push_back(
          {.name = "", .size = info.size, .version = info.version, .is_private = info.is_private});
      return;
    }
    for (const ListedName& listed : list_all(*source_, from_)) {
      const auto object = source_->stat(join_path(from_, listed.name), /*follow=*/false);
      if (!object || object->type != ObjectInfo::Type::kObject) {
        throw UsageError(shown(join_path(from_, listed.name)) +
                         (object ? " is not a file: such a folder is not copied as a checkpoint"
                                 : " was removed meanwhile"));
      }
      noted_objects_.push_back({.name = listed.name,
                                .size = object->size,
                                .version = object->version,
                                .is_private = object->is_private});
    }
  }

  // Whether step 2 writes the objects.
  bool is_on_the_way() const { return source_->may_be_far() && !target_->may_be_far(); }

  void check_content(const std::shared_ptr<ObjectStore>& store) const {
    check_whole(open_checkpoint(from_, store).verify(options_.verify), shown(from_),
                {.advice = "nothing was copied"});
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const ObjectToCopy& object : noted_objects_) {
      names.insert(object.name);
    }
    return names;
  }

  struct Sent {
    const ObjectToCopy& object;
    ByteSink& out;
  };

  // Steps 2 to 4, for the objects that the server does not copy.
  void send(const std::vector<Sent>& all) const {
    const auto store = std::make_shared<CopiedStore>(source_);
    std::deque<ProgressSink> progress_sinks;
    for (const Sent& sent : all) {
      store->add(path_of(sent.object), sent.object.size,
                 progress_sinks.emplace_back(sent.out, options_));
    }
    if (is_on_the_way()) check_content(store);
    for (const Sent& sent : all) {
      const std::string path = path_of(sent.object);
      store->open_copied(path)->finish();
      const auto now = source_->stat(path);
      if (!now || now->version != sent.object.version) refuse_replaced(shown(path));
      store->close(path);
    }
  }

  // Step 5.
  void copy_file() {
    const ObjectToCopy& object = noted_objects_.front();
    if (is_copied_there_) {
      source_->copy(from_, to_, condition_of(replace_if(options_.overwrite)), object.version);
      if (options_.on_progress) options_.on_progress(object.size);
      return;
    }
    const ObjectToPublish file{.name = to_,
                               .replace = replace_if(options_.overwrite),
                               .expected_bytes = object.size,
                               .is_private = object.is_private,
                               .fill = [&](ObjectWrite& out) {
                                 send({{object, out}});
                               }};
    remove_leftovers_of(*target_, to_);
    write_until_seen(*target_, file, {});
  }

  void copy_folder() {
    remove_leftovers_of(*target_, to_);
    if (options_.overwrite) check_only_own_files(*target_, to_, names());
    const auto folder = target_->begin_folder(to_, options_.overwrite);
    std::deque<PartOfFolder> parts;
    std::vector<Sent> sent;
    for (const ObjectToCopy& object : noted_objects_) {
      if (is_copied_there_ && folder->copy(path_of(object), object.name, object.version)) {
        if (options_.on_progress) options_.on_progress(object.size);
        continue;
      }
      sent.push_back({object, parts.emplace_back(*folder, object)});
    }
    send(sent);
    folder->commit();
  }

  const CopyOptions& options_;
  const std::shared_ptr<ObjectStore> source_;
  const std::shared_ptr<ObjectStore> target_;
  std::string from_;
  const std::string to_;
  const bool is_copied_there_;
  bool is_folder_ = false;
  std::vector<ObjectToCopy> noted_objects_;
};

}  // namespace

CopyResult copy_checkpoint(const std::string& from, const std::string& to,
                           const CopyOptions& options) try {
  return Copy(from, to, options).run();
} catch (const std::bad_alloc&) {
  throw_out_of_memory("copying a checkpoint");
}

}  // namespace cairn

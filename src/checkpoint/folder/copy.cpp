// Copying a checkpoint as it is.
//
// clang-format off
//  1. The version of every object of it is noted; then it is opened and verified.
//  2. Each object is opened again and its bytes written under the new name, in blocks. Within one
//     bucket the server copies it: the version of step 1, and no other.
//  3. Before it is committed its version is asked for once more. One that changed since step 1 is
//     not what was verified: nothing is published.
//  4. Commit: a file at once; of a folder, when all of its objects are there (FolderWrite).
// clang-format on
#include "cairn/checkpoint/copy.h"

#include <new>
#include <set>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/open/check_whole.h"
#include "core/out_of_memory.h"
#include "io/file.h"
#include "io/source_part.h"
#include "io/uri.h"
#include "storage/listing.h"
#include "storage/own_files.h"
#include "storage/place.h"
#include "storage/publish.h"

namespace cairn {
namespace {

// "a.pt", also of "https://host/a.pt?signature=...".
std::string own_name(const std::string& place) {
  constexpr std::string_view kQuery = "?...";
  std::string name = base_name(shown_place(place));
  if (name.ends_with(kQuery)) name.resize(name.size() - kQuery.size());
  return name;
}

// Whether names of both are of one store, whose server copies.
bool is_copied_there(const std::string& from, const std::string& to, const CopyOptions& options,
                     const ObjectStore& store) {
  if (options.from_store != options.to_store) return false;
  if (options.from_store == nullptr && split_uri(from).root() != split_uri(to).root()) return false;
  return store.features().server_copies;
}

struct Noted {
  std::string name;  // below the folder; empty for a file
  std::uint64_t size = 0;
  std::string version;
  bool is_private = false;  // and so is the copy
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
    if (!there) throw NotFoundError(shown(from_) + " is not there");
    is_folder_ = there->type == ObjectInfo::Type::kFolder;
    check_names();
    note(*there);
    check_content();
    is_folder_ ? copy_folder() : copy_file();
    return {.path = to_, .objects = noted_.size(), .bytes = bytes_};
  }

 private:
  std::string shown(const std::string& name) const { return source_->describe(name); }

  std::string path_of(const Noted& object) const {
    return object.name.empty() ? from_ : join_path(from_, object.name);
  }

  void check_names() const {
    const std::string from = shown(normal_path(from_));
    const std::string to = target_->describe(normal_path(to_));
    const bool is_elsewhere = options_.from_store != options_.to_store;
    if (!is_elsewhere && (from == to || to.starts_with(from + "/") || from.starts_with(to + "/"))) {
      throw UsageError("cannot copy " + shown(from_) + " to " + target_->describe(to_) +
                       ": they are, or lie in, one another");
    }
    if (meant_extension(own_name(from_)) != meant_extension(own_name(to_))) {
      throw UsageError(target_->describe(to_) + " names another format than " + shown(from_) +
                       "; `cairn copy` keeps the bytes, `cairn convert` makes other formats");
    }
  }

  // Step 1.
  void note(const ObjectInfo& info) {
    if (!is_folder_) {
      noted_.push_back(
          {.name = "", .size = info.size, .version = info.version, .is_private = info.is_private});
      return;
    }
    for (const ListedName& listed : list_all(*source_, from_)) {
      const auto object = source_->stat(join_path(from_, listed.name), /*follow=*/false);
      if (!object || object->type != ObjectInfo::Type::kObject) {
        throw UsageError(shown(join_path(from_, listed.name)) +
                         (object ? " is no file: such a folder is not copied as a checkpoint"
                                 : " was removed meanwhile"));
      }
      noted_.push_back({.name = listed.name,
                        .size = object->size,
                        .version = object->version,
                        .is_private = object->is_private});
    }
  }

  void check_content() const {
    check_whole(open_checkpoint(from_, source_).verify(options_.verify), shown(from_),
                {.advice = "nothing was copied"});
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const Noted& object : noted_) {
      names.insert(object.name);
    }
    return names;
  }

  // Steps 2 and 3.
  void send(const Noted& object, ObjectWrite& out) {
    const auto source = source_->open(path_of(object));
    read_in_blocks(*source, [&](ByteView block) {
      out.write(block);
      if (options_.on_progress) options_.on_progress(block.size());
    });
    const auto now = source_->stat(path_of(object));
    if (source->size() != object.size || !now || now->version != object.version) {
      throw StorageError(shown(path_of(object)) +
                             " was replaced while it was copied; nothing was written. Try again",
                         0, /*retryable=*/false);
    }
  }

  void count(std::uint64_t bytes) {
    bytes_ += bytes;
    if (options_.on_progress) options_.on_progress(bytes);
  }

  // Step 4.
  void copy_file() {
    const Noted& object = noted_.front();
    if (is_copied_there_) {
      source_->copy(from_, to_, condition_of(replace_if(options_.overwrite)), object.version);
      return count(object.size);
    }
    const ObjectToPublish file{.name = to_,
                               .replace = replace_if(options_.overwrite),
                               .expected_bytes = object.size,
                               .is_private = object.is_private,
                               .fill = [&](ObjectWrite& out) { send(object, out); }};
    remove_leftovers_of(*target_, to_);
    bytes_ = publish(*target_, file, {}).bytes;
  }

  void copy_folder() {
    remove_leftovers_of(*target_, to_);
    if (options_.overwrite) check_only_own_files(*target_, to_, names());
    const auto folder = target_->begin_folder(to_, options_.overwrite);
    for (const Noted& object : noted_) {
      if (is_copied_there_ && folder->copy(path_of(object), object.name, object.version)) {
        count(object.size);
        continue;
      }
      const auto out = object.is_private ? folder->begin_private(object.name, object.size)
                                         : folder->begin(object.name, object.size);
      send(object, *out);
      out->commit();
      bytes_ += object.size;
    }
    folder->commit();
  }

  const CopyOptions& options_;
  const std::shared_ptr<ObjectStore> source_;
  const std::shared_ptr<ObjectStore> target_;
  std::string from_;
  const std::string to_;
  const bool is_copied_there_;
  bool is_folder_ = false;
  std::vector<Noted> noted_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

CopyResult copy_checkpoint(const std::string& from, const std::string& to,
                           const CopyOptions& options) try {
  return Copy(from, to, options).run();
} catch (const std::bad_alloc&) {
  throw_out_of_memory("copying a checkpoint");
}

}  // namespace cairn

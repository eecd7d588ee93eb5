// Copying a checkpoint as it is.
//
// clang-format off
//  1. The version of every object of it is noted; then it is opened and verified.
//  2. Each object is opened again and its bytes written under the new name, in blocks.
//  3. Before it is committed its version is asked for once more. One that changed since step 1 is
//     not what was verified: nothing is published.
//  4. Commit: a file at once; of a folder, when all of its objects are there (FolderWrite).
// clang-format on
#include "cairn/checkpoint/copy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"
#include "storage/publish.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBlockBytes = 8 << 20;

std::string last_part(const std::string& place) {
  const std::size_t end = place.find_last_not_of('/');
  if (end == std::string::npos) return {};
  const std::size_t slash = place.rfind('/', end);
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return place.substr(begin, end + 1 - begin);
}

// ".pt", ".safetensors"; of "lr0.1-ep3" ".1-ep3", which is as good for comparing.
std::string last_extension(const std::string& place) {
  const std::string name = last_part(place);
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? "" : name.substr(dot);
}

struct Noted {
  std::string name;  // below the folder; empty for a file
  std::uint64_t size = 0;
  std::string version;
};

class Copy {
 public:
  Copy(const std::string& from, const std::string& to, const CopyOptions& options)
      : options_(options),
        source_(store_of(from, options.from_store)),
        target_(store_of(to, options.to_store)),
        from_(from),
        to_(to.ends_with('/') ? join_path(to, last_part(from)) : to) {
    if (const auto pointer = source_->read_pointer(from)) from_ = pointer->target;
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
    if (last_extension(from_) != last_extension(to_)) {
      throw UsageError(target_->describe(to_) + " names another format than " + shown(from_) +
                       "; `cairn copy` keeps the bytes, `cairn convert` makes other formats");
    }
  }

  // Step 1.
  void note(const ObjectInfo& info) {
    if (!is_folder_) {
      noted_.push_back({.name = "", .size = info.size, .version = info.version});
      return;
    }
    for (const ListedName& listed : list_all(*source_, from_)) {
      const auto object = source_->stat(join_path(from_, listed.name), /*follow=*/false);
      if (!object || object->type != ObjectInfo::Type::kObject) {
        throw UsageError(shown(join_path(from_, listed.name)) +
                         (object ? " is no file: such a folder is not copied as a checkpoint"
                                 : " was removed meanwhile"));
      }
      noted_.push_back({.name = listed.name, .size = object->size, .version = object->version});
    }
  }

  void check_content() const {
    const VerifyReport report = open_checkpoint(from_, source_).verify(options_.verify);
    if (report.ok()) return;
    throw CorruptError(shown(from_) + " is " + report.summary() + "; nothing was copied",
                       shown(from_), report.damage.front().begin);
  }

  // Steps 2 and 3.
  void send(const Noted& object, ObjectWrite& out) {
    const auto source = source_->open(path_of(object));
    std::vector<std::byte> block;
    for (std::uint64_t begin = 0; begin < source->size(); begin += block.size()) {
      block.resize(std::min(kBlockBytes, source->size() - begin));
      const ByteSource::Range range{begin, block};
      source->read({&range, 1});
      out.write(block);
      if (options_.on_progress) options_.on_progress(block.size());
    }
    const auto now = source_->stat(path_of(object));
    if (source->size() != object.size || !now || now->version != object.version) {
      throw StorageError(shown(path_of(object)) +
                             " was replaced while it was copied; nothing was written. Try again",
                         0, /*retryable=*/false);
    }
  }

  // Step 4.
  void copy_file() {
    const Noted& object = noted_.front();
    const ObjectToPublish file{.name = to_,
                               .condition = condition_of(options_.overwrite),
                               .expected_bytes = object.size,
                               .fill = [&](ObjectWrite& out) { send(object, out); }};
    remove_leftovers_of(*target_, to_);
    bytes_ = publish(*target_, file, {}).bytes;
  }

  void copy_folder() {
    remove_leftovers_of(*target_, to_);
    const auto folder = target_->begin_folder(to_, options_.overwrite);
    for (const Noted& object : noted_) {
      const auto out = folder->begin(object.name, object.size);
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
  bool is_folder_ = false;
  std::vector<Noted> noted_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

CopyResult copy_checkpoint(const std::string& from, const std::string& to,
                           const CopyOptions& options) {
  return Copy(from, to, options).run();
}

}  // namespace cairn

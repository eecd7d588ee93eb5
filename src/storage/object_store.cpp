#include "cairn/storage/object_store.h"

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/object_folder.h"

namespace cairn {

void ObjectWrite::write_at(std::uint64_t offset, SharedBytes bytes) {
  const std::uint64_t size = bytes.view.size();
  if (size == 0) return;
  const auto next = early_.lower_bound(offset);
  const bool reaches_into_next = next != early_.end() && next->first - offset < size;
  const bool lies_in_last = next != early_.begin() &&
                            std::prev(next)->first + std::prev(next)->second.view.size() > offset;
  if (offset < front_ || reaches_into_next || lies_in_last) {
    throw UsageError("bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) +
                     " of an object are written twice");
  }
  early_.emplace_hint(next, offset, std::move(bytes));
  while (!early_.empty() && early_.begin()->first == front_) {
    const SharedBytes ready = std::move(early_.extract(early_.begin()).mapped());
    append(ready);
    front_ += ready.view.size();
  }
}

void ObjectWrite::commit() {
  if (!early_.empty()) {
    throw UsageError("bytes " + std::to_string(front_) + " to " +
                     std::to_string(early_.begin()->first) + " of an object were not written");
  }
  publish();
}

namespace {

void check_unchanged(ObjectStore& store, const std::string& name,
                     const std::optional<ObjectInfo>& before, const std::string& version) {
  const auto now = store.stat(name);
  const bool is_same = now && before && now->version == before->version;
  if (is_same && (version.empty() || now->version == version)) return;
  throw StorageError(
      store.describe(name) + " was replaced while it was copied; nothing was written. Try again", 0,
      /*retryable=*/false);
}

}  // namespace

std::unique_ptr<FolderWrite> ObjectStore::begin_folder(const std::string& name, bool overwrite) {
  return write_folder_of_objects(*this, name, overwrite);
}

void ObjectStore::copy(const std::string& from, const std::string& to,
                       const WriteCondition& condition, const std::string& from_version) {
  const auto before = stat(from);
  const auto source = open(from);
  if (normal_path(from) == normal_path(to)) return;
  BeginOptions options;  // A variable: GCC 12 warns about a string in a temporary.
  options.condition = condition;
  options.expected_bytes = source->size();
  options.is_private = before && before->is_private;
  const auto out = begin(to, options);
  read_in_blocks(*source, [&](ByteView block) { out->write(block); });
  check_unchanged(*this, from, before, from_version);
  out->commit();
}

void ObjectStore::rename(const std::string& from, const std::string& to) {
  copy(from, to);
  if (normal_path(from) != normal_path(to)) remove(from);
}

}  // namespace cairn

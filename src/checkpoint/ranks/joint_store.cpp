#include "checkpoint/ranks/joint_store.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "io/file.h"

namespace cairn {
namespace {

class FileElsewhere final : public ByteSource {
 public:
  FileElsewhere(FileOfRank where, std::uint64_t size, std::string name,
                std::shared_ptr<const PeerFileReader> others)
      : where_(where), size_(size), name_(std::move(name)), others_(std::move(others)) {}

  std::uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  void read(std::span<const Range> ranges) const override {
    for (const Range& range : ranges) {
      check_range(range.offset, range.into.size());
    }
    others_->read(where_, ranges);
  }

 private:
  const FileOfRank where_;
  const std::uint64_t size_;
  const std::string name_;
  const std::shared_ptr<const PeerFileReader> others_;
};

// The files of the agreed content that this rank has.
std::set<std::string> own_files(const AgreedCheckpoint& agreed,
                                const std::vector<SeenCheckpoint>& seen) {
  const auto own = std::ranges::find_if(seen, [&](const SeenCheckpoint& one) {
    return one.name == agreed.name && one.identity == agreed.identity;
  });
  if (own == seen.end()) return {};
  return {own->has.begin(), own->has.end()};
}

}  // namespace

JointStore::JointStore(std::shared_ptr<ObjectStore> here, View view)
    : ForwardingStore(std::move(here)), view_(std::move(view)) {
  folders_[normal_path(view_.folder)];
  for (std::size_t i = 0; i < view_.agreed.size(); ++i) {
    if (view_.agreed[i].lacks.empty()) add(i, own_files(view_.agreed[i], view_.seen));
  }
}

std::string JointStore::path_of(std::size_t checkpoint, std::size_t file) const {
  const AgreedCheckpoint& agreed = view_.agreed.at(checkpoint);
  const std::string path = join_path(view_.folder, agreed.name);
  const std::string& name = agreed.files.at(file).name;
  return normal_path(name.empty() ? path : join_path(path, name));
}

void JointStore::add(std::size_t checkpoint, const std::set<std::string>& own) {
  const AgreedCheckpoint& agreed = view_.agreed[checkpoint];
  const std::string top = normal_path(view_.folder);
  for (std::size_t i = 0; i < agreed.files.size(); ++i) {
    const AgreedCheckpoint::File& file = agreed.files[i];
    std::string path = path_of(checkpoint, i);
    files_[path] = {.where = {.checkpoint = checkpoint, .file = i, .rank = file.rank},
                    .bytes = file.bytes,
                    .is_here = own.contains(file.name)};
    while (path != top) {
      const std::string parent = parent_path(path);
      if (!folders_[parent].insert(base_name(path)).second) break;
      path = parent;
    }
  }
}

std::shared_ptr<const ByteSource> JointStore::open_here(std::size_t checkpoint,
                                                        std::size_t file) const {
  return under_->open(path_of(checkpoint, file));
}

bool JointStore::is_all_here(const std::string& path) const {
  const std::string below = normal_path(path);
  return std::ranges::all_of(files_, [&](const auto& file) {
    const bool is_of_it = file.first == below || file.first.starts_with(below + "/");
    return !is_of_it || file.second.is_here;
  });
}

std::optional<ObjectInfo> JointStore::stat(const std::string& name, bool /*follow*/) {
  const std::string path = normal_path(name);
  const auto file = files_.find(path);
  if (file != files_.end()) {
    return ObjectInfo{.type = ObjectInfo::Type::kObject, .size = file->second.bytes};
  }
  if (!folders_.contains(path)) return std::nullopt;
  return ObjectInfo{.type = ObjectInfo::Type::kFolder};
}

std::shared_ptr<const ByteSource> JointStore::open(const std::string& name) {
  const std::string path = normal_path(name);
  const auto file = files_.find(path);
  if (file == files_.end() && folders_.contains(path)) throw UsageError(path + " is a folder");
  if (file == files_.end()) throw NotFoundError(path + " is on no machine of this job");
  if (file->second.is_here) return under_->open(path);
  return std::make_shared<FileElsewhere>(
      file->second.where, file->second.bytes,
      path + " of rank " + std::to_string(file->second.where.rank), view_.others);
}

ListPage JointStore::list(const std::string& folder, const std::string& /*page*/) {
  const auto found = folders_.find(normal_path(folder));
  if (found == folders_.end()) throw NotFoundError(folder + " is on no machine of this job");
  ListPage page;
  for (const std::string& name : found->second) {
    page.names.push_back({.name = name});
  }
  return page;
}

}  // namespace cairn

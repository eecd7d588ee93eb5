#include "checkpoint/open/noting_store.h"

#include "io/file.h"

namespace cairn {

std::shared_ptr<const ByteSource> NotingStore::open(const std::string& name) {
  auto file = under_->open(name);
  const std::scoped_lock lock(mutex_);
  std::string path = normal_path(name);
  while (opened_.insert(path).second && parent_path(path) != path) {
    path = parent_path(path);
  }
  return file;
}

ListPage NotingStore::list(const std::string& folder, const std::string& page) {
  ListPage names = under_->list(folder, page);
  const std::scoped_lock lock(mutex_);
  const std::string path = normal_path(folder);
  if (root_.empty()) root_ = path;
  for (const ListedName& listed : names.names) {
    listed_.insert(normal_path(join_path(path, listed.name)));
  }
  return names;
}

std::vector<std::string> NotingStore::unread() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> unread;
  const std::string start = root_ == "." ? std::string() : join_path(root_, "");
  for (const std::string& path : listed_) {
    if (!opened_.contains(path) && path.starts_with(start)) {
      unread.push_back(path.substr(start.size()));
    }
  }
  return unread;
}

}  // namespace cairn

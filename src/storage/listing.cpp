#include "storage/listing.h"

#include <algorithm>

#include "io/file.h"

namespace cairn {

std::vector<ListedName> list_all(ObjectStore& store, const std::string& folder) {
  std::vector<ListedName> all;
  ListPage page;
  do {
    page = store.list(folder, page.next);
    std::move(page.names.begin(), page.names.end(), std::back_inserter(all));
  } while (!page.next.empty());
  std::sort(all.begin(), all.end(),
            [](const ListedName& a, const ListedName& b) { return a.name < b.name; });
  return all;
}

std::vector<std::string> list_names(ObjectStore& store, const std::string& folder) {
  std::vector<std::string> names;
  for (ListedName& listed : list_all(store, folder)) {
    names.push_back(std::move(listed.name));
  }
  return names;
}

std::optional<ObjectInfo> info_of(ObjectStore& store, const std::string& folder,
                                  const ListedName& listed) {
  return listed.info ? listed.info : store.stat(join_path(folder, listed.name), /*follow=*/false);
}

bool is_folder(ObjectStore& store, const std::string& name) {
  const auto there = store.stat(name);
  return there && there->type == ObjectInfo::Type::kFolder;
}

void remove_leftovers_of(ObjectStore& store, const std::string& name) {
  const std::string own = normal_path(name);
  store.remove_leftovers(parent_path(own), base_name(own));
}

WriteCondition condition_of(bool overwrite) {
  return overwrite ? WriteCondition{} : WriteCondition::absent();
}

}  // namespace cairn

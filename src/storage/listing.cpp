#include "storage/listing.h"

#include <algorithm>
#include <array>

#include "cairn/error.h"

#include "io/file.h"
#include "io/files/real_path.h"
#include "storage/object_folder.h"
#include "storage/pages.h"

namespace cairn {

std::vector<ListedName> list_all(ObjectStore& store, const std::string& folder) {
  std::vector<ListedName> all;
  ListPage page;
  Pages pages(store.describe(folder));
  do {
    page = store.list(folder, page.next);
    std::move(page.names.begin(), page.names.end(), std::back_inserter(all));
  } while (pages.advance(page.next));
  std::sort(all.begin(), all.end(),
            [](const ListedName& a, const ListedName& b) { return a.name < b.name; });
  return all;
}

std::vector<ListedName> list_all_if_any(ObjectStore& store, const std::string& folder) {
  try {
    return list_all(store, folder);
  } catch (const NotFoundError&) {
    return {};
  }
}

namespace {

std::vector<std::string> names_of(std::vector<ListedName> all) {
  std::vector<std::string> names;
  for (ListedName& listed : all) {
    names.push_back(std::move(listed.name));
  }
  return names;
}

}  // namespace

std::vector<std::string> list_names(ObjectStore& store, const std::string& folder) {
  return names_of(list_all(store, folder));
}

std::vector<std::string> list_names_if_any(ObjectStore& store, const std::string& folder) {
  return names_of(list_all_if_any(store, folder));
}

std::optional<ObjectInfo> info_of(ObjectStore& store, const std::string& folder,
                                  const ListedName& listed) {
  return listed.info ? listed.info : store.stat(join_path(folder, listed.name), /*follow=*/false);
}

bool ExistenceCache::operator()(const std::string& name) {
  if (!store_->may_be_far()) return store_->stat(name).has_value();
  const std::string own = normal_path(name);
  const std::string folder = parent_path(own);
  const auto [listed, is_new] = folders_.try_emplace(folder);
  if (is_new) {
    for (std::string& there : list_names_if_any(*store_, folder)) {
      listed->second.insert(std::move(there));
    }
  }
  return listed->second.contains(base_name(own));
}

bool is_same_name(ObjectStore& store, const std::string& a, const std::string& b) {
  const auto without_slash = [](std::string path) {
    if (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
  };
  // Compares the text first: if a link cannot be followed now, a name is still equal to itself.
  if (without_slash(normal_path(a)) == without_slash(normal_path(b))) return true;
  return store.names_are_paths() && without_slash(real_path(a)) == without_slash(real_path(b));
}

bool lies_in(ObjectStore& store, const std::string& folder, const std::string& name) {
  if (!store.names_are_paths() || path_below(folder, name)) return true;
  const std::string real = join_path(real_path(parent_path(name)), base_name(name));
  return path_below(real_path(folder), real).has_value();
}

bool is_folder(ObjectStore& store, const std::string& name) {
  const auto there = store.stat(name);
  return there && there->type == ObjectInfo::Type::kFolder;
}

namespace {

std::string name_aside(const std::string& name, const std::string& ending, std::size_t number) {
  return name + "." + ending + (number == 1 ? "" : "-" + std::to_string(number));
}

}  // namespace

bool is_put_aside(std::string_view name) {
  const std::size_t dash = name.find_last_not_of("0123456789");
  if (dash != std::string_view::npos && dash + 1 < name.size() && name[dash] == '-') {
    name = name.substr(0, dash);
  }
  constexpr std::array<std::string_view, 3> kEndings = {kAsideDamaged, kAsideUnreadable,
                                                        kAsideInTheWay};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    return name.size() > ending.size() + 1 && name.ends_with(ending) &&
           name[name.size() - ending.size() - 1] == '.';
  });
}

std::vector<std::string> names_aside(ObjectStore& store, const std::string& name,
                                     const std::string& ending) {
  constexpr std::size_t kMax = 1000;  // if nothing in the folder can be examined
  std::vector<std::string> names;
  std::string aside = name_aside(name, ending, 1);
  const auto is_there = [&] {
    try {
      return store.stat(aside, /*follow=*/false).has_value();
    } catch (const UnreadableError&) {  // An object has the name.
      if (names.size() >= kMax) throw;
      return true;
    }
  };
  while (is_there()) {
    names.push_back(std::move(aside));
    aside = name_aside(name, ending, names.size() + 1);
  }
  return names;
}

std::string put_aside(ObjectStore& store, const std::string& name, const std::string& ending) {
  std::string aside = name_aside(name, ending, names_aside(store, name, ending).size() + 1);
  store.rename(name, aside);
  return aside;
}

void remove_leftovers_of(ObjectStore& store, const std::string& name) {
  const std::string own = normal_path(name);
  store.remove_leftovers(parent_path(own), base_name(own));
}

bool was_removed(ObjectStore& store, const std::string& name) {
  try {
    const auto there = store.stat(name, /*follow=*/false);
    if (!there) return true;
    const bool goes_in_steps =
        there->type == ObjectInfo::Type::kFolder && !store.features().whole_folders;
    return goes_in_steps && state_of_folder(store, name) == FolderState::kLeftBehind;
  } catch (const NotFoundError&) {
    return true;  // It was removed between the two calls.
  } catch (const Error&) {
    return false;
  }
}

}  // namespace cairn

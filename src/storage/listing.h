// Functions for callers of a store that combine several of its calls, or work on a whole folder.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

// All names that are directly in `folder`, sorted. Throws like ObjectStore::list().
std::vector<ListedName> list_all(ObjectStore& store, const std::string& folder);
std::vector<std::string> list_names(ObjectStore& store, const std::string& folder);
// Like list_all() and list_names(), but empty if there is no such folder. In most stores a folder
// disappears with its last object. Another program may remove that object, for instance a stop
// request, between any two calls.
std::vector<ListedName> list_all_if_any(ObjectStore& store, const std::string& folder);
std::vector<std::string> list_names_if_any(ObjectStore& store, const std::string& folder);

// Like stat(path, follow = false), but asks the store only if the listing has no info. nullopt: the
// object is gone.
std::optional<ObjectInfo> info_of(ObjectStore& store, const std::string& folder,
                                  const ListedName& listed);

// Whether an object of a name exists; a pointer counts if its target exists. Made for many names:
// in a store that may_be_far() each folder is listed only once, at the first question about a name
// in the folder.
class ExistenceCache {
 public:
  explicit ExistenceCache(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}
  bool operator()(const std::string& name);

 private:
  const std::shared_ptr<ObjectStore> store_;
  std::map<std::string, std::set<std::string>> folders_;  // names in each folder
};

// Whether two names mean the same object although they are written differently: with a slash at the
// end or, in a folder of files, by another path. Follows links.
bool is_same_name(ObjectStore& store, const std::string& a, const std::string& b);

// Whether `name` lies in `folder`, directly or below it. In a folder of files the two may be
// written in different ways: links are followed, except a link that is the last part. Always true
// in other stores, whose pointers hold names of the whole store.
bool lies_in(ObjectStore& store, const std::string& folder, const std::string& name);

// Whether there is a folder of that name.
bool is_folder(ObjectStore& store, const std::string& name);

// Endings for put_aside(): for a damaged checkpoint, for one that the disk cannot read, and for a
// file or folder whose name is needed.
inline constexpr const char* kAsideDamaged = "damaged";
inline constexpr const char* kAsideUnreadable = "unreadable";
inline constexpr const char* kAsideInTheWay = "aside";

// Renames an object that is in the way but may still be wanted: to NAME.ENDING, or the first free
// name of NAME.ENDING-2, ... Returns that name. A store of objects copies a file, and throws for a
// folder (ObjectStore::rename()).
std::string put_aside(ObjectStore& store, const std::string& name, const std::string& ending);
// Whether put_aside() may have given this name.
bool is_put_aside(std::string_view name);
// The names that put_aside() gave for `name` and `ending`, oldest first, up to the first name that
// does not exist.
std::vector<std::string> names_aside(ObjectStore& store, const std::string& name,
                                     const std::string& ending);

// Removes what killed writers left of the file or folder `name`.
void remove_leftovers_of(ObjectStore& store, const std::string& name);

// Whether a checkpoint that was opened has been removed since, possibly by another program. If so,
// an error in the checkpoint does not mean that it was damaged: some stores remove a folder object
// by object. False if the store cannot tell.
bool was_removed(ObjectStore& store, const std::string& name);

}  // namespace cairn

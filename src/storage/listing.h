// What callers of a store do with more than one of its functions, or with each of a folder.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

// All that is directly in `folder`, sorted by name. Throws as ObjectStore::list().
std::vector<ListedName> list_all(ObjectStore& store, const std::string& folder);
std::vector<std::string> list_names(ObjectStore& store, const std::string& folder);
// The same; none where there is no such folder. In most stores a folder goes with its last object,
// which somebody may remove between any two calls: a request to stop that is taken, say.
std::vector<ListedName> list_all_if_any(ObjectStore& store, const std::string& folder);
std::vector<std::string> list_names_if_any(ObjectStore& store, const std::string& folder);

// As stat(path, follow = false), asking only when listing did not tell. nullopt: gone since.
std::optional<ObjectInfo> info_of(ObjectStore& store, const std::string& folder,
                                  const ListedName& listed);

// Whether there is an object, or what a pointer leads to, of a name. For many names: in a store
// that may_be_far() it lists each folder once, when it is first asked for a name in it.
class Existence {
 public:
  explicit Existence(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}
  bool operator()(const std::string& name);

 private:
  const std::shared_ptr<ObjectStore> store_;
  std::map<std::string, std::set<std::string>> folders_;  // their names
};

// Whether two names are of one thing, though written in different ways: with a slash at the end, or
// in a folder of files by another path, links followed.
bool is_same_name(ObjectStore& store, const std::string& a, const std::string& b);

// Whether `name` lies in `folder`, directly or below it. In a folder of files the two may be
// written in different ways: links are followed, except a link that is the last part. Always true
// in other stores, whose pointers hold names of the whole store.
bool lies_in(ObjectStore& store, const std::string& folder, const std::string& name);

// Whether there is a folder of that name.
bool is_folder(ObjectStore& store, const std::string& name);

// Endings of put_aside(): of what is no good checkpoint any more, and of what a disk does not give.
inline constexpr const char* kAsideDamaged = "damaged";
inline constexpr const char* kAsideUnreadable = "unreadable";

// Renames what is in the way and somebody may still want: to NAME.ENDING, or the first of
// NAME.ENDING-2, ... that nothing has. Gives that name. In a store of objects a file is
// copied, and a folder an error (ObjectStore::rename()).
std::string put_aside(ObjectStore& store, const std::string& name, const std::string& ending);
// What was put aside of that name with that ending, the oldest first, up to the first that is gone.
std::vector<std::string> names_aside(ObjectStore& store, const std::string& name,
                                     const std::string& ending);

// What killed writers left of what was to become `name`, a file or a folder.
void remove_leftovers_of(ObjectStore& store, const std::string& name);

// Whether a checkpoint that was opened is gone. A problem with it then says nothing. Other programs
// remove checkpoints, too; in some stores a folder goes object by object. False if the store cannot
// tell.
bool was_removed(ObjectStore& store, const std::string& name);

}  // namespace cairn

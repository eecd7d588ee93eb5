// Files in folders that a server keeps, as far as its own requests go. What an ObjectStore is
// besides is made of them: tree_store.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// Safe from several threads. Paths have slashes between folders, and none at either end; "" is the
// folder of all. Failures are StorageError.
class Tree {
 public:
  virtual ~Tree() = default;

  virtual std::string describe(const std::string& path) const = 0;
  // The largest file that can be written.
  virtual std::uint64_t largest_file() const = 0;

  virtual std::optional<ObjectInfo> find_file(const std::string& path) = 0;
  virtual bool has_folder(const std::string& path) = 0;
  // What a name may be: the first of these that there is, and nothing behind it.
  struct Look {
    std::optional<ObjectInfo> file = std::nullopt;  // of the path
    std::optional<ObjectInfo> link = std::nullopt;  // a file of the other path
    bool is_folder = false;                         // of the path
  };
  // With as few requests as the server needs for all of it; `link` may be "": none.
  virtual Look look(const std::string& path, const std::string& link, bool may_be_file);
  // nullptr when there is no such file; `known`: what a look at it gave just now.
  virtual std::shared_ptr<const ByteSource> open(
      const std::string& path, const std::optional<ObjectInfo>& known = std::nullopt) = 0;
  // As ObjectStore::list(), with the names that the server has; nullopt when there is no such
  // folder.
  virtual std::optional<ListPage> list(const std::string& folder, const std::string& page) = 0;

  // Writes a file, in place of what has the path, and its folders; `only_new`: AlreadyExistsError
  // when something has it. There whole, or not at all.
  virtual void put(const std::string& path, const SharedBytes& bytes, bool only_new) = 0;
  // False when there is none.
  virtual bool remove_file(const std::string& path) = 0;
  // One that is empty. Servers that have no folders of their own do nothing.
  virtual void remove_folder(const std::string& /*path*/) {}
};

}  // namespace cairn

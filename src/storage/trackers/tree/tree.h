// Files in folders on a server, with the operations that the server's requests offer. tree_store.h
// builds an ObjectStore from them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// Thread-safe. Paths have slashes between folders, and none at either end; "" is the top folder.
// Failures are StorageError.
class Tree {
 public:
  virtual ~Tree() = default;

  virtual std::string describe(const std::string& path) const = 0;
  // The largest file that can be written.
  virtual std::uint64_t largest_file() const = 0;

  virtual std::optional<ObjectInfo> find_file(const std::string& path) = 0;
  virtual bool has_folder(const std::string& path) = 0;
  // The things that a name can be. Only the first one that exists needs to be filled in.
  struct Look {
    std::optional<ObjectInfo> file = std::nullopt;  // the path is a file
    std::optional<ObjectInfo> link = std::nullopt;  // the other path is a file
    bool is_folder = false;                         // the path is a folder
  };
  // Takes as few requests as possible. `link` is the other path; "" for none.
  virtual Look look(const std::string& path, const std::string& link, bool may_be_file);
  // nullptr if there is no such file. `known` is a result of find_file() or look() just before.
  virtual std::shared_ptr<const ByteSource> open(
      const std::string& path, const std::optional<ObjectInfo>& known = std::nullopt) = 0;
  // Like ObjectStore::list(), with the server's names. nullopt if there is no such folder.
  virtual std::optional<ListPage> list(const std::string& folder, const std::string& page) = 0;

  // Writes a file and its folders, and replaces an existing file. With `only_new` throws
  // AlreadyExistsError if the file exists. The file appears whole or not at all.
  virtual void put(const std::string& path, const SharedBytes& bytes, bool only_new) = 0;
  // False if there is no such file.
  virtual bool remove_file(const std::string& path) = 0;
  // Removes an empty folder. Servers without folders of their own do nothing.
  virtual void remove_folder(const std::string& /*path*/) {}
};

}  // namespace cairn

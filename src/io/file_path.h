// Where a FileSystem creates, renames and removes: only inside the folder that it was given.
//
// A program that may write into a folder of checkpoints can put a link in the place of any folder
// in it, at any moment. So the place of a change has two parts. The root is the folder that the
// user named, and links on the way to it are followed. Below the root no call follows a link,
// however recently another call looked.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace cairn {

// A folder: the root itself, or one below it.
struct FolderPath {
  // A folder that is its own root.
  FolderPath(std::string path) : root(std::move(path)) {}  // NOLINT: a path is one
  FolderPath(const char* path) : root(path) {}             // NOLINT
  FolderPath(std::string root_folder, std::string names)
      : root(std::move(root_folder)), below(std::move(names)) {}

  std::string root;        // empty: the current folder
  std::string below = {};  // names with a slash between two of them; empty: the root itself

  std::string text() const;
  // The folder that holds this folder. The parent of a root is a root, too.
  FolderPath parent() const;
  bool operator==(const FolderPath&) const = default;
};

// A name in a folder: that of a file, a link or a folder.
struct FilePath {
  // A name in a folder that is its own root: the path up to the last slash.
  FilePath(const std::string& path);                           // NOLINT: a path is one
  FilePath(const char* path) : FilePath(std::string(path)) {}  // NOLINT
  FilePath(FolderPath in, std::string called) : folder(std::move(in)), name(std::move(called)) {}

  FolderPath folder;
  std::string name;  // without slashes

  std::string text() const;
  // Another name in the same folder.
  FilePath beside(std::string other) const { return {folder, std::move(other)}; }
  // The folder of this name.
  FolderPath as_folder() const;
  bool operator==(const FilePath&) const = default;
};

// Returns `path` as a name below `root`, by the text of both; nullopt if `path` does not lie below
// `root`.
std::optional<FilePath> path_below(const std::string& root, const std::string& path);

}  // namespace cairn

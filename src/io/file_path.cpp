#include "io/file_path.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/uri.h"

namespace cairn {
namespace {

// The names between slashes. A path that names a folder, because it ends with a slash or a dot,
// ends with an empty name.
using Names = std::vector<std::string_view>;

// Returns the names without ".", "x/.." and double slashes.
Names normal_names(std::string_view path) {
  const bool is_absolute = path.starts_with('/');
  Names names;
  bool is_folder = path.ends_with('/');
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty()) continue;
    const bool is_last = path.find_first_not_of('/') == std::string_view::npos;
    if (name == "..") {
      const bool goes_up = names.empty() || names.back() == "..";
      if (!goes_up) names.pop_back();
      if (goes_up && !is_absolute) names.push_back(name);
    } else if (name != ".") {
      names.push_back(name);
      continue;
    }
    is_folder |= is_last;
  }
  if (is_folder && !names.empty() && names.back() != "..") names.emplace_back();
  return names;
}

std::string joined(const Names& names) {
  std::string path;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) path += '/';
    path += names[i];
  }
  return path;
}

std::string normal_text(const std::string& path) {
  const std::string text = (path.starts_with('/') ? "/" : "") + joined(normal_names(path));
  return text.empty() && !path.empty() ? "." : text;
}

}  // namespace

std::string join_path(const std::string& folder, const std::string& name) {
  if (folder.empty() || name.starts_with('/')) return name;
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

std::string parent_path(const std::string& path) {
  // The path without trailing slashes names the same thing.
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const std::size_t slash = path.rfind('/', end);
  if (slash == std::string::npos) return ".";
  const std::size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

bool has_dot_component(const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = std::string_view(path).substr(begin, end - begin);
    if (component == "." || component == "..") return true;
    begin = end + 1;
  }
  return false;
}

std::string base_name(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return {};
  const std::size_t slash = path.rfind('/', end);
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

std::string absolute_path(const std::string& path) {
  if (path.starts_with('/') || path.empty()) return path;
  const std::unique_ptr<char, decltype(&std::free)> folder(getcwd(nullptr, 0), &std::free);
  return folder == nullptr ? path : join_path(folder.get(), path);
}

std::string relative_path(const std::string& path, const std::string& folder) {
  const bool is_absolute = path.starts_with('/');
  const Names to = normal_names(path);
  const Names names = normal_names(folder);
  const auto [own, above] = std::ranges::mismatch(to, names);
  // A path from outside the current folder back into it needs that folder's name.
  const bool is_outside = std::find(above, names.end(), "..") != names.end();
  if (is_absolute != folder.starts_with('/') || is_outside) {
    const std::string target = absolute_path(path);
    const std::string from = absolute_path(folder);
    const bool are_absolute = target.starts_with('/') && from.starts_with('/');
    return are_absolute ? relative_path(target, from) : path;
  }
  const bool ends_empty = above != names.end() && names.back().empty();
  Names way(static_cast<std::size_t>(names.end() - above) - (ends_empty ? 1 : 0), "..");
  const bool is_same = way.empty() && (own == to.end() || own->empty());
  way.insert(way.end(), own, to.end());
  return is_same ? "." : normal_text(joined(way));
}

std::string normal_path(const std::string& path) {
  if (scheme_of(path).empty()) return normal_text(path);
  const Uri uri = split_uri(path);
  const std::string below = normal_text("/" + uri.path);
  return uri.root() + (below == "/" ? "" : below);
}

std::string FolderPath::text() const {
  if (root.empty() && below.empty()) return ".";
  return below.empty() ? root : join_path(root, below);
}

FolderPath FolderPath::parent() const {
  if (below.empty()) return parent_path(text());
  const std::size_t slash = below.rfind('/');
  return {root, slash == std::string::npos ? "" : below.substr(0, slash)};
}

namespace {

std::string folder_in(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {};
  // A URI remains a URI, so that FileSystem refuses it.
  return scheme_of(path).empty() ? parent_path(path) : path.substr(0, slash + 1);
}

}  // namespace

FilePath::FilePath(const std::string& path) : folder(folder_in(path)), name(base_name(path)) {}

std::string FilePath::text() const {
  return folder == FolderPath("") ? name : join_path(folder.text(), name);
}

FolderPath FilePath::as_folder() const {
  return {folder.root, folder.below.empty() ? name : folder.below + "/" + name};
}

std::optional<FilePath> path_below(const std::string& root, const std::string& path) {
  std::string names = relative_path(path, root);
  if (names.ends_with('/')) names.pop_back();
  const bool is_outside = names.empty() || names == "." || names == ".." ||
                          names.starts_with("../") || names.starts_with('/');
  if (is_outside) return std::nullopt;
  const std::size_t slash = names.rfind('/');
  if (slash == std::string::npos) return FilePath(root, names);
  return FilePath(FolderPath(root, names.substr(0, slash)), names.substr(slash + 1));
}

}  // namespace cairn

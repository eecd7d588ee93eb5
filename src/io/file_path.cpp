#include <filesystem>

#include "io/file.h"
#include "io/uri.h"

namespace cairn {

std::string join_path(const std::string& folder, const std::string& name) {
  if (folder.empty() || name.starts_with('/')) return name;
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

std::string parent_path(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');  // trailing slashes name the same thing
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const std::size_t slash = path.rfind('/', end);
  if (slash == std::string::npos) return ".";
  const std::size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

std::string base_name(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return {};
  const std::size_t slash = path.rfind('/', end);
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

std::string relative_path(const std::string& path, const std::string& folder) {
  std::filesystem::path target = path;
  std::filesystem::path from = folder;
  if (target.is_absolute() != from.is_absolute()) {
    target = std::filesystem::absolute(target);
    from = std::filesystem::absolute(from);
  }
  return target.lexically_normal().lexically_relative(from.lexically_normal()).string();
}

std::string normal_path(const std::string& path) {
  if (!scheme_of(path).empty()) {
    const Uri uri = split_uri(path);
    const std::string below = std::filesystem::path("/" + uri.path).lexically_normal().string();
    return uri.root() + (below == "/" ? "" : below);
  }
  return std::filesystem::path(path).lexically_normal().string();
}

}  // namespace cairn

#include "storage/local/links.h"

#include <algorithm>

#include "io/bytes/source_part.h"
#include "io/durable/atomic_file.h"

namespace cairn {
namespace {

void replace_link_file(FileSystem& files, const std::string& target, const FilePath& path) {
  AtomicFile file(files, path, {});
  file.write(as_bytes(target));
  file.commit();
}

void remove_other_form(FileSystem& files, const FilePath& path) {
  const auto there = files.stat(path.text(), /*follow=*/false);
  if (there && there->type != FileInfo::Type::kFolder) files.remove(path);
}

}  // namespace

std::string named_by_link(std::string_view text) {
  if (text.size() > kLongestLink) return "";
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  const bool is_name =
      std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  return is_name ? std::string(text) : "";
}

void point_link(FileSystem& files, const std::string& path, const FilePath& link) {
  const std::string target = relative_path(path, link.folder.text());
  const FilePath link_file = link.beside(link.name + std::string(kLinkFile));
  files.make_folders(link.folder);
  if (replace_link(files, target, link)) {
    remove_other_form(files, link_file);
  } else {
    replace_link_file(files, target, link_file);
    remove_other_form(files, link);
  }
}

std::optional<std::string> link_target(FileSystem& files, const std::string& link) {
  if (const auto target = files.read_link(link)) return join_path(parent_path(link), *target);
  return read_link_file(files, link + std::string(kLinkFile));
}

std::optional<std::string> read_link_file(FileSystem& files, const std::string& path) {
  const auto info = files.stat(path);
  if (!info || info->type != FileInfo::Type::kRegular || info->size > kLongestLink) {
    return std::nullopt;
  }
  const SharedBytes bytes = read_start(*files.open(path), kLongestLink);
  const std::string target = named_by_link(as_text(bytes.view));
  if (target.empty()) return std::nullopt;
  return join_path(parent_path(path), target);
}

}  // namespace cairn

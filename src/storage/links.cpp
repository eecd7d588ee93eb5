#include "storage/links.h"

#include <algorithm>

#include "io/atomic_file.h"
#include "io/source_part.h"

namespace cairn {
namespace {

constexpr std::uint64_t kLongestLink = 4096;  // PATH_MAX

void replace_link_file(FileSystem& files, const std::string& target, const FilePath& path) {
  AtomicFile file(files, path, {});
  file.write(as_bytes(target));
  file.commit();
}

void remove_other_form(FileSystem& files, const FilePath& path) {
  const auto there = files.stat(path.text(), /*follow=*/false);
  if (there && there->type != FileInfo::Type::kFolder) files.remove(path);
}

bool is_path(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(),
                                       [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

}  // namespace

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
  std::string_view text = as_text(bytes.view);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.remove_suffix(1);  // of one that was written by hand
  }
  if (!is_path(text)) return std::nullopt;
  return join_path(parent_path(path), std::string(text));
}

}  // namespace cairn

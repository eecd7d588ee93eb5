#include "c/search.h"

#include "c/error.h"
#include "checkpoint/folder/search.h"
#include "core/text/printable.h"

namespace cairn {

std::optional<FoundCheckpoint> find_newest(const std::string& folder, FindOptions options) {
  std::vector<NameFormat> others;
  if (options.filename.empty()) others.emplace_back(kSaverNames);
  return search_folder(folder, {.find = std::move(options), .other_filenames = std::move(others)});
}

void SkippedLines::add(const std::string& path, const std::string& why) {
  if (!lines_.empty()) lines_ += '\n';
  const bool names_path = why.starts_with(path);
  lines_ += (names_path ? "" : printable_line(path) + ": ") + printable_line(why);
}

void SkippedLines::hand_over() {
  if (into_ != nullptr && !lines_.empty()) *into_ = text_copy(lines_);
}

}  // namespace cairn

#include "checkpoint/leftovers.h"

#include <set>

#include "base/atomic_file.h"

namespace cairn {
namespace {

// The folders that names of some formats lie in, by their path from `folder`.
class Folders {
 public:
  Folders(FileSystem& files, const std::string& folder, const FormatVariables& dist)
      : files_(files), folder_(folder), dist_(dist) {}

  // Those below `where`, which is one of them.
  void collect(const std::string& format, const std::string& where) {
    found_.insert(where);
    const std::size_t slash = format.find('/');
    if (slash == std::string::npos) return;
    for (const std::string& name : files_.list(path(where))) {
      if (!parse_name(format.substr(0, slash), name, dist_)) continue;
      const std::string below = where.empty() ? name : join_path(where, name);
      const auto info = files_.stat(path(below));
      if (!info || info->type != FileInfo::Type::kFolder) continue;
      collect(format.substr(slash + 1), below);
    }
  }

  const std::set<std::string>& found() const { return found_; }
  std::string path(const std::string& where) const {
    return where.empty() ? folder_ : join_path(folder_, where);
  }

 private:
  FileSystem& files_;
  const std::string& folder_;
  const FormatVariables& dist_;
  std::set<std::string> found_;
};

}  // namespace

std::vector<std::string> remove_leftovers_of_formats(FileSystem& files, const std::string& folder,
                                                     const std::vector<std::string>& formats,
                                                     const FormatVariables& dist) {
  if (!files.stat(folder)) return {};
  Folders folders(files, folder, dist);
  for (const std::string& format : formats) {
    folders.collect(format, "");
  }
  std::vector<std::string> removed;
  for (const std::string& where : folders.found()) {
    for (const std::string& name : remove_leftovers(files, folders.path(where))) {
      removed.push_back(where.empty() ? name : join_path(where, name));
    }
  }
  return removed;
}

}  // namespace cairn

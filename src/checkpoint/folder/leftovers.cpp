#include "checkpoint/folder/leftovers.h"

#include <set>

#include "checkpoint/folder/format_folders.h"
#include "io/file.h"

namespace cairn {

std::vector<std::string> remove_leftovers_of_formats(ObjectStore& store, const std::string& folder,
                                                     const std::vector<NameFormat>& formats,
                                                     const FormatVariables& dist) {
  // in a far store this stat() would be an extra request
  if (!store.may_be_far() && !store.stat(folder)) return {};
  std::set<std::string> folders;
  for (const NameFormat& format : formats) {
    for (std::string& where : format_folders(store, folder, format, dist)) {
      folders.insert(std::move(where));
    }
  }
  std::vector<std::string> removed;
  for (const std::string& where : folders) {
    const std::string there = where.empty() ? folder : join_path(folder, where);
    for (const std::string& name : store.remove_leftovers(there)) {
      removed.push_back(where.empty() ? name : join_path(where, name));
    }
  }
  return removed;
}

}  // namespace cairn

#include "checkpoint/names/run_forms.h"

#include <algorithm>

#include "checkpoint/names/extension.h"
#include "io/file.h"

namespace cairn {

std::string as_tar_format(const std::string& filename) {
  const std::string_view extension = meant_extension(base_name(filename));
  const bool is_tar = extension.starts_with(".tar") || extension == ".tgz";
  return is_tar ? filename : filename + ".tar";
}

std::string as_folder_format(const std::string& filename, const std::string& name) {
  const std::size_t slash = filename.rfind('/');
  return (slash == std::string::npos ? "" : filename.substr(0, slash + 1)) + name;
}

std::vector<NameFormat> names_of_forms(const std::string& filename,
                                       const std::string& sharded_folders) {
  std::vector<NameFormat> names;
  for (const std::string& form :
       {filename, as_folder_format(filename, sharded_folders), as_tar_format(filename)}) {
    if (std::ranges::find(names, NameFormat(form)) == names.end()) names.emplace_back(form);
  }
  return names;
}

}  // namespace cairn

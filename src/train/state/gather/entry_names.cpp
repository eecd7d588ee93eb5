#include "train/state/gather/entry_names.h"

#include <map>

namespace cairn {

std::vector<std::string> entry_names(const std::vector<std::string>& class_names) {
  std::map<std::string, int> seen;
  std::vector<std::string> names;
  for (const std::string& name : class_names) {
    const int before = seen[name]++;
    names.push_back(before == 0 ? name : name + "-" + std::to_string(before));
  }
  return names;
}

}  // namespace cairn

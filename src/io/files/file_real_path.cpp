#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "io/file.h"
#include "io/files/real_path.h"

namespace cairn {

std::string real_path(const std::string& path) {
  const std::string absolute = absolute_path(path);
  if (!absolute.starts_with('/')) return normal_path(path);
  std::size_t end = absolute.size();  // of the part that exists
  struct stat info = {};
  while (end > 0 && ::stat(absolute.substr(0, end).c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return normal_path(absolute);
    end = absolute.find_last_not_of('/', absolute.rfind('/', end - 1)) + 1;
  }
  if (end == 0) return normal_path(absolute);
  const std::unique_ptr<char, decltype(&std::free)> real(
      ::realpath(absolute.substr(0, end).c_str(), nullptr), &std::free);
  if (real == nullptr) return normal_path(absolute);
  return normal_path(real.get() + absolute.substr(end));
}

}  // namespace cairn

#include <filesystem>
#include <system_error>

#include "io/file.h"
#include "io/real_path.h"

namespace cairn {

std::string real_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return normal_path(path);
  const std::filesystem::path real = std::filesystem::weakly_canonical(absolute, error);
  return normal_path(error ? absolute.string() : real.string());
}

}  // namespace cairn

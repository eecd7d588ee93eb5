#include "loggers/cut_file.h"

#include <span>

#include "io/durable/atomic_file.h"
#include "io/file.h"

namespace cairn {

bool cut_file(const std::string& path, std::uint64_t bytes) {
  FileSystem& files = posix_file_system();
  const auto info = files.stat(path, /*follow=*/false);
  if (!info || info->type != FileInfo::Type::kRegular) return false;
  if (info->size <= bytes) return true;
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const ByteSource::Range all = {.into = std::as_writable_bytes(std::span(text))};
  files.open(path)->read({&all, 1});
  AtomicFile file(files, path, {});
  file.write(as_bytes(text));
  file.commit();
  return true;
}

}  // namespace cairn

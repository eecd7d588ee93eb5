#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/file_error.h"

namespace cairn {
namespace {

// A fault maps up to a whole large folio, so the first one in a piece maps again what has been let
// go of before it. (Linux since 6.18; before, at most 64 KiB.)
constexpr std::size_t kLargestFolio = std::size_t{2} << 20;

// `mapping` is where the file's bytes start. Rounds down at both ends: in a stream, the page that
// holds the start was used up by the piece before, and the one that holds the end is about to be
// used.
void release_pages(ByteView bytes, const void* mapping) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // A mapping begins with a page.
  auto* const first = static_cast<std::byte*>(const_cast<void*>(mapping));
  const auto start = static_cast<std::size_t>(bytes.data() - first);
  const std::size_t begin = (start - std::min(start, kLargestFolio)) / page * page;
  const std::size_t end = (start + bytes.size()) / page * page;
  // A wish: where it fails, memory is used for longer.
  if (end > begin) madvise(first + begin, end - begin, MADV_DONTNEED);
}

}  // namespace

SharedBytes map_descriptor(int fd, std::size_t size, const std::string& name) {
  if (size == 0) return {};
  void* start = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) throw_storage_error(errno, "cannot map " + name);
  return {{static_cast<const std::byte*>(start), size},
          std::shared_ptr<const void>(start, [size](void* p) { munmap(p, size); }),
          release_pages};
}

}  // namespace cairn

#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/file_error.h"

namespace cairn {
namespace {

// Rounds down at both ends: in a stream, the page that holds the start was used up by the piece
// before, and the one that holds the end is about to be used.
void release_pages(ByteView bytes) {
  static const auto kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = start / kPage * kPage;
  const std::uintptr_t end = (start + bytes.size()) / kPage * kPage;
  // A wish: where it fails, memory is used for longer.
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
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

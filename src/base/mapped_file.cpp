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
constexpr std::uintptr_t kLargestFolio = std::uintptr_t{2} << 20;

// `mapping` is where the file's bytes start. Rounds down at both ends: in a stream, the page that
// holds the start was used up by the piece before, and the one that holds the end is about to be
// used.
void release_pages(ByteView bytes, const void* mapping) {
  static const auto kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(mapping);
  const auto start = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (start - std::min(start - first, kLargestFolio)) / kPage * kPage;
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

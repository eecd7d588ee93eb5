// Replaces the functions of glibc that came after version 2.34 and that cairn, libgcc or libstdc++
// calls, so that the static tool and libcairn-c run on systems with glibc 2.34. To the linker each
// has the name of glibc's function. They are not exported: other libraries keep glibc's own.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <complex>
#include <cstdint>
#include <cstdlib>

namespace cairn::newer_glibc {

#ifdef DLFO_STRUCT_HAS_EH_DBASE  // glibc 2.35 or newer, and a libgcc that was built for it
namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

int look_at(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto* const search = static_cast<Search*>(data);
  const ElfW(Phdr)* frames = nullptr;
  bool holds_address = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == DLFO_EH_SEGMENT_TYPE) frames = &segment;
    if (segment.p_type == PT_LOAD && search->address - begin < segment.p_memsz) {
      holds_address = true;
      search->found->dlfo_map_start = reinterpret_cast<void*>(begin);
      search->found->dlfo_map_end = reinterpret_cast<void*>(begin + segment.p_memsz);
    }
  }
  if (!holds_address || frames == nullptr) return 0;
  search->found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

}  // namespace

// Tells libgcc where the tables for exceptions of the object at `address` are.
int find_object(void* address, dl_find_object* found) noexcept __asm__("_dl_find_object");
int find_object(void* address, dl_find_object* found) noexcept {
  *found = {};
  Search search = {reinterpret_cast<std::uintptr_t>(address), found};
  return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}
#endif

// Glibc 2.35 has a new version of hypot(), whose only difference is that it never sets errno.
double length(double x, double y) noexcept __asm__("hypot");
double length(double x, double y) noexcept { return std::abs(std::complex<double>(x, y)); }

// Gives std::random_device its numbers.
std::uint32_t random_number() noexcept __asm__("arc4random");
std::uint32_t random_number() noexcept {
  std::uint32_t number = 0;
  if (getentropy(&number, sizeof(number)) != 0) std::abort();  // The kernel has no random numbers.
  return number;
}

}  // namespace cairn::newer_glibc

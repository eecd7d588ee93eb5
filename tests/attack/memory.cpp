#include "memory.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

extern "C" {
// glibc's own functions. The functions that replace them can still call them by these names.
void* __libc_malloc(size_t size);                      // NOLINT
void* __libc_calloc(size_t count, size_t size);        // NOLINT
void* __libc_realloc(void* old, size_t size);          // NOLINT
void* __libc_memalign(size_t alignment, size_t size);  // NOLINT
// The linker defines these two: where the code of this program begins and ends.
extern const char __executable_start;  // NOLINT
extern const char etext;               // NOLINT
}

namespace cairn::attack {
namespace {

std::atomic<bool> armed = false;
std::atomic<Memory> counted = Memory::kAll;
std::atomic<std::uint64_t> failing = 0;
std::atomic<std::uint64_t> count = 0;

// Counts an allocation. Returns true if it is to fail.
bool is_due() { return ++count == failing; }

// Two libraries crash if one of their own allocations fails: libzstd 1.5.4 while it starts its
// threads, and OpenSSL 3.0 at its first use in a process (EVP_MD_fetch() takes a null lock).
bool is_of_fragile_library(const void* caller) {
  Dl_info info = {};
  if (dladdr(caller, &info) == 0) return false;
  return std::strstr(info.dli_fname, "libzstd") != nullptr ||
         std::strstr(info.dli_fname, "libcrypto") != nullptr;
}

bool fails_in_libc(const void* caller) {
  if (!armed || counted != Memory::kAll || !is_due() || is_of_fragile_library(caller)) return false;
  errno = ENOMEM;
  return true;
}

bool fails_mapping() {
  if (!armed || !is_due()) return false;
  errno = ENOMEM;
  return true;
}

bool is_own(const void* caller) {
  return caller >= &__executable_start && caller < &etext;  // NOLINT
}

// With Memory::kAll, malloc() does the counting.
void* new_or_null(std::size_t size, std::size_t alignment, const void* caller) {
  if (armed && counted == Memory::kOwn && is_own(caller) && is_due()) return nullptr;
  return alignment == 0 ? malloc(std::max<std::size_t>(size, 1)) : memalign(alignment, size);
}

void* new_or_throw(std::size_t size, std::size_t alignment, const void* caller) {
  void* const memory = new_or_null(size, alignment, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void arm_memory(std::uint64_t at, Memory which) {
  armed = false;
  counted = which;
  failing = at;
  count = 0;
  armed = true;
}

std::uint64_t disarm_memory() {
  armed = false;
  return count;
}

}  // namespace cairn::attack

// --- The functions of libc ----------------------------------------------------------------------

using cairn::attack::fails_in_libc;
using cairn::attack::fails_mapping;

extern "C" {

void* malloc(size_t size) noexcept {
  return fails_in_libc(__builtin_return_address(0)) ? nullptr : __libc_malloc(size);
}

void* calloc(size_t number, size_t size) noexcept {
  return fails_in_libc(__builtin_return_address(0)) ? nullptr : __libc_calloc(number, size);
}

void* realloc(void* old, size_t size) noexcept {
  return fails_in_libc(__builtin_return_address(0)) ? nullptr : __libc_realloc(old, size);
}

void* memalign(size_t alignment, size_t size) noexcept {
  return fails_in_libc(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept { return memalign(alignment, size); }

int posix_memalign(void** place, size_t alignment, size_t size) noexcept {
  void* const memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *place = memory;
  return 0;
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  using Mmap = void*(void*, size_t, int, int, int, off_t);
  static auto* const next = reinterpret_cast<Mmap*>(dlsym(RTLD_NEXT, "mmap"));
  if (fails_mapping()) return MAP_FAILED;
  return next(address, size, protection, flags, fd, offset);
}

}  // extern "C"

// --- The functions of C++ -----------------------------------------------------------------------

using cairn::attack::new_or_null;
using cairn::attack::new_or_throw;

void* operator new(std::size_t size) { return new_or_throw(size, 0, __builtin_return_address(0)); }
void* operator new[](std::size_t size) {
  return new_or_throw(size, 0, __builtin_return_address(0));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return new_or_null(size, 0, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, std::size_t) noexcept { free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { free(memory); }

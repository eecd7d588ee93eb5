#include "core/out_of_memory.h"

#include <new>

#include "cairn/error.h"

namespace cairn {
namespace {

// Copies of this error take no memory.
const OutOfMemoryError kShort("there is not enough memory");

}  // namespace

void throw_out_of_memory(const char* doing, const std::string& path) {
  try {
    throw OutOfMemoryError(std::string(doing) + (path.empty() ? "" : " ") + path +
                           ": there is not enough memory");
  } catch (const std::bad_alloc&) {
    throw_out_of_memory();
  }
}

void throw_out_of_memory() { throw OutOfMemoryError(kShort); }

}  // namespace cairn

#include "io/memory/memory_budget.h"

#include <string>

#include "cairn/error.h"

#include "core/text/size_text.h"

namespace cairn {

void MemoryBudget::refuse(std::uint64_t bytes) {
  has_refused_ = true;
  const std::uint64_t all = kFreeBytes + kBytesPerByte * file_bytes_;
  throw UnsupportedError("it would need more than " + size_text(all - left_ + bytes) +
                         " of memory for " + size_text(file_bytes_) + " of file; at most " +
                         size_text(all) + " are given to it");
}

}  // namespace cairn

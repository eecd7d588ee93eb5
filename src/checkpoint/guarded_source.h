// A source whose reads are errors rather than SIGBUS where the disk fails: base/mapped_file.h.
#pragma once

#include <memory>
#include <string>

#include "cairn/error.h"

#include "base/mapped_file.h"
#include "checkpoint/source.h"

namespace cairn {

// What `read` gives; a StorageError where bytes of `path` could not be read, also when `read` took
// the zeros in their place for damage.
template <class Read>
auto guarded(const std::string& path, const Read& read) -> decltype(read()) {
  const GuardedReads guard;
  try {
    auto result = read();
    check_mapped_reads(path);
    return result;
  } catch (const Error&) {
    check_mapped_reads(path);
    throw;
  }
}

// `source` with every call guarded.
std::unique_ptr<CheckpointSource> guard_source(std::unique_ptr<CheckpointSource> source,
                                               const std::string& path);

}  // namespace cairn

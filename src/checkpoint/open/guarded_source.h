// A source whose reads are errors about its file: rather than SIGBUS where the disk fails
// (io/memory/mapped_file.h), and rather than the end of the program where memory does.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "cairn/error.h"

#include "checkpoint/open/source.h"
#include "core/out_of_memory.h"
#include "io/memory/mapped_file.h"
#include "io/read_fault.h"

namespace cairn {

// Returns what `read` returns. StorageError if bytes of `path` could not be read, also if `read`
// took the zeros in their place for damage. OutOfMemoryError if there is not enough memory.
// UnsupportedError if the file claims a size that no machine has.
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
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw_out_of_memory("reading", path);
    if (const auto problem = memory_problem(error)) throw UnsupportedError(path + ": " + *problem);
    throw;
  }
}

// `source` with every call guarded.
std::unique_ptr<CheckpointSource> guard_source(std::unique_ptr<CheckpointSource> source,
                                               const std::string& path);

}  // namespace cairn

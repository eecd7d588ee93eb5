// Turns failures while reading into errors about the file: a failing disk would otherwise raise
// SIGBUS (io/memory/mapped_file.h), and a failed allocation would end the program.
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

// Returns what `read` returns. Throws StorageError if bytes of `path` could not be read. Such bytes
// read as zeros, so StorageError is thrown even if `read` took the zeros for damage. Throws
// OutOfMemoryError if there is not enough memory. Throws UnsupportedError if the file claims a size
// that no machine has.
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

// Returns `source` with every call guarded.
std::unique_ptr<CheckpointSource> guard_source(std::unique_ptr<CheckpointSource> source,
                                               const std::string& path);

}  // namespace cairn

// What an error says about the file that was being read.
//
// Errors are not data: only what was read and is wrong says something about a file. That it could
// not be opened, mapped or expanded this time (no permission, too many open files, a full $TMPDIR)
// says nothing about it, and whoever takes such a file for a bad one loses it.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "cairn/error.h"

namespace cairn {

// What reads the file is not installed here; the message names it. Nothing is known of the file.
class ReaderMissingError : public UnsupportedError {
 public:
  using UnsupportedError::UnsupportedError;
};

enum class ReadFault : std::uint8_t {
  kContent,  // it was read, and is damaged, foreign or too large to look into: so it is tomorrow
  kNoFile,   // there is none: it is gone, or a link leads nowhere
  kBytes,    // UnreadableError: an older one may do, and it is left as it is
  kNow,      // it could not be read this time: every other StorageError, and a lack of memory
};

// Classifies an exception that reading a file may throw. std::length_error is the file's own fault
// (kContent): the file claims a size that no machine has. OutOfMemoryError and std::bad_alloc are
// not: a MemoryBudget refuses claims beyond the file's own size before memory is taken. Unknown
// exceptions are kNow.
ReadFault read_fault_of(const std::exception& error);

// Whether an allocation failed. False if a file claimed a size that no machine has.
bool is_out_of_memory(const std::exception& error);

// Describes std::bad_alloc and std::length_error, whose what() tells nothing: something took more
// memory than there is. nullopt for every other error.
std::optional<std::string> memory_problem(const std::exception& error);

// One line about the error: memory_problem(), or else what().
std::string read_problem(const std::exception& error);

}  // namespace cairn

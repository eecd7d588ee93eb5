// Decides what an error says about the file that was being read.
//
// Errors are not data. Only content that was read and is wrong says something about a file. Failing
// to open, map or expand it this time (no permission, too many open files, a full $TMPDIR) says
// nothing about it. Code that takes such a file for a damaged one loses it.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "cairn/error.h"

namespace cairn {

// The program or library that reads the file is not installed here; the message names it. Nothing
// is known about the file.
class ReaderMissingError : public UnsupportedError {
 public:
  using UnsupportedError::UnsupportedError;
};

enum class ReadFault : std::uint8_t {
  kContent,  // it was read: it is damaged, foreign or too large, and stays so
  kNoFile,   // there is none: it is gone, or a link leads nowhere
  kBytes,    // UnreadableError: use an older file, and leave this one
  kNow,      // it could not be read now: any other StorageError, or no memory
};

// Classifies an exception that reading a file may throw. std::length_error is the file's own fault
// (kContent): the file claims a size that no machine has. OutOfMemoryError and std::bad_alloc are
// not the fault of the file: a MemoryBudget refuses claims beyond the file's own size before memory
// is taken. Unknown exceptions are kNow.
ReadFault read_fault_of(const std::exception& error);

// Whether an allocation failed. False if a file claimed a size that no machine has.
bool is_out_of_memory(const std::exception& error);

// Describes std::bad_alloc and std::length_error, whose what() says nothing useful: more memory was
// requested than there is. nullopt for every other error.
std::optional<std::string> memory_problem(const std::exception& error);

// One line about the error: memory_problem(), or else what().
std::string read_problem(const std::exception& error);

}  // namespace cairn

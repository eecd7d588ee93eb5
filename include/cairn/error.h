// Errors thrown by cairn.
//
// One root, and one subclass for each thing that a caller can do differently. Conditions that a
// correct caller expects ("is there a checkpoint yet?") are not errors: those functions are named
// try_* or find_* and return std::optional.
//
// A message says what happened, what was expected and found, where, and what to do next. Callers
// further up add what they were doing with add_context(); the dynamic type never changes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Root of everything that cairn throws. The message may hold names from files, and is safe to
// print: control characters except line feeds, and bytes that are not UTF-8, are written as "\x1b".
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
  const char* what() const noexcept override {
    return text_.empty() ? std::runtime_error::what() : text_.c_str();
  }

  // Prefixes the message with what the caller was doing: "saving ckpt/ep1.pt: <message>". Use it in
  // a handler that then rethrows with `throw;`. If there is no memory for the new message, the old
  // one stays.
  void add_context(const std::string& doing) noexcept;

 private:
  // The message with its contexts; empty without one, so that a copy takes no memory
  std::string text_;
};

// The caller passed something impossible. Fix the program or its configuration; the message names
// the option.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A file, folder or object that the caller named does not exist.
class NotFoundError : public Error {
 public:
  using Error::Error;
};

// Something of that name exists, and the caller did not allow replacing it. Use another name, or
// set `overwrite`.
class AlreadyExistsError : public Error {
 public:
  using Error::Error;
};

// The bytes are not what their format requires. Try an older checkpoint.
class CorruptError : public Error {
 public:
  static constexpr std::uint64_t kNoOffset = ~std::uint64_t{0};

  // `file` may be empty if the bytes have no name (a buffer); `offset` counts from the file's
  // start.
  explicit CorruptError(const std::string& message, std::string file = {},
                        std::uint64_t offset = kNoOffset)
      : Error(message), file_(std::move(file)), offset_(offset) {}
  const std::string& file() const { return file_; }
  std::uint64_t offset() const { return offset_; }

 private:
  std::string file_;
  std::uint64_t offset_;
};

// The input is valid, but cairn cannot read or do it. The message names the thing (a class, an
// opcode, a container) and what to do instead.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

// The stored state is whole, but does not fit the live objects (another model, another optimizer).
// The message lists what does not fit; nothing was applied.
class MismatchError : public Error {
 public:
  using Error::Error;
};

// Storage failed: a full or broken disk, no permission. Existing files are unchanged. The message
// says what was being done to which file.
class StorageError : public Error {
 public:
  // `status` is the errno value (or, for remote stores, the HTTP status).
  StorageError(const std::string& message, int status, bool retryable = false)
      : Error(message), status_(status), retryable_(retryable) {}

  // True when the same call may succeed later (a full disk may be emptied; a bad disk will not).
  bool retryable() const { return retryable_; }
  int status() const { return status_; }

 private:
  int status_;
  bool retryable_;
};

// A file or object exists, but some or all of its bytes cannot be read. The reason may be a bad
// block, a failed checksum of the file system, a write or truncation during the read, or a server
// that lost the bytes. The message names the file and the byte. The checkpoint may be whole, but
// this machine cannot continue from it now: autoresume takes an older checkpoint, and removes none.
//
// A store of your own throws it from stat(), open() and ByteSource::read(). Any other StorageError
// says that nothing is known now, and ends the start of the run.
class UnreadableError : public StorageError {
 public:
  using StorageError::StorageError;
};

// An allocation failed. This says nothing about the file that was being read. Existing objects and
// files are unchanged, and the same call may succeed when there is more memory. Functions that read
// or write checkpoints throw it in place of std::bad_alloc; functions that only work on Values pass
// std::bad_alloc on.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

// Another process is training the run that was started, and a second one would overwrite its
// checkpoints. Nothing was changed. The message names the process, its machine and when it was
// started. Wait until it ends; a start before that fails the same way.
class BusyError : public Error {
 public:
  using Error::Error;
};

// The operation was asked to stop before it finished.
class CancelledError : public Error {
 public:
  using Error::Error;
};

// Training cannot go on, for example because the loss is NaN. Saved checkpoints are unchanged.
class TrainingError : public Error {
 public:
  using Error::Error;
};

}  // namespace cairn

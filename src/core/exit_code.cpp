#include "cairn/exit_code.h"

#include <cerrno>
#include <new>

#include "cairn/error.h"

#include "core/error_class.h"

namespace cairn {
namespace {

template <class Class>
bool is(const std::exception& error) {
  return dynamic_cast<const Class*>(&error) != nullptr;
}

ExitCode code_of_storage_error(const StorageError& error) {
  switch (error.status()) {
    case EACCES:
    case EPERM:
    case EROFS:
      return kDenied;
    case ENOSPC:
    case EDQUOT:
      return kNoSpace;
    default:
      return error.retryable() ? kStorage : kFailed;
  }
}

}  // namespace

ExitCode exit_code_of(const std::exception& error) {
  if (is<NotFoundError>(error)) return kNotFound;
  if (is<CorruptError>(error)) return kDamaged;
  if (is<MismatchError>(error)) return kIncompatible;
  if (is<UnsupportedError>(error)) return kIncompatible;
  if (is<BusyError>(error)) return kBusy;
  if (const auto* storage = dynamic_cast<const StorageError*>(&error)) {
    return code_of_storage_error(*storage);
  }
  return kFailed;
}

std::string_view error_class(const std::exception& error) {
  if (is<UsageError>(error)) return "UsageError";
  if (is<NotFoundError>(error)) return "NotFoundError";
  if (is<AlreadyExistsError>(error)) return "AlreadyExistsError";
  if (is<CorruptError>(error)) return "CorruptError";
  if (is<UnsupportedError>(error)) return "UnsupportedError";
  if (is<MismatchError>(error)) return "MismatchError";
  if (is<UnreadableError>(error)) return "UnreadableError";  // a StorageError, too
  if (is<StorageError>(error)) return "StorageError";
  if (is<OutOfMemoryError>(error) || is<std::bad_alloc>(error)) return "OutOfMemoryError";
  if (is<BusyError>(error)) return "BusyError";
  if (is<CancelledError>(error)) return "CancelledError";
  if (is<TrainingError>(error)) return "TrainingError";
  return "Error";
}

}  // namespace cairn

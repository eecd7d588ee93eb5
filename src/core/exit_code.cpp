#include "cairn/exit_code.h"

#include <cerrno>

#include "cairn/error.h"

namespace cairn {
namespace {

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
  if (dynamic_cast<const NotFoundError*>(&error)) return kNotFound;
  if (dynamic_cast<const CorruptError*>(&error)) return kDamaged;
  if (dynamic_cast<const MismatchError*>(&error)) return kIncompatible;
  if (dynamic_cast<const UnsupportedError*>(&error)) return kIncompatible;
  if (dynamic_cast<const BusyError*>(&error)) return kBusy;
  if (const auto* storage = dynamic_cast<const StorageError*>(&error)) {
    return code_of_storage_error(*storage);
  }
  return kFailed;
}

}  // namespace cairn

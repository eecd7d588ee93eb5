#include "core/error_class.h"

#include <new>

#include "cairn/error.h"

namespace cairn {
namespace {

template <class Class>
bool is(const std::exception& error) {
  return dynamic_cast<const Class*>(&error) != nullptr;
}

}  // namespace

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

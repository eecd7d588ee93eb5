#include "c/error.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "cairn/error.h"
#include "cairn/exit_code.h"

struct cairn_error {
  cairn_status status = CAIRN_OTHER;
  int exit_code = cairn::kFailed;
  int number = 0;
  bool is_retryable = false;
  std::string message = {};
};

namespace cairn {
namespace {

// What cannot be allocated any more.
cairn_error& no_memory() {
  static cairn_error error{.status = CAIRN_OUT_OF_MEMORY, .message = "out of memory"};
  return error;
}

template <class Kind>
bool is(const std::exception& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

cairn_status status_of(const std::exception& error) {
  if (is<UsageError>(error)) return CAIRN_USAGE;
  if (is<NotFoundError>(error)) return CAIRN_NOT_FOUND;
  if (is<AlreadyExistsError>(error)) return CAIRN_ALREADY_EXISTS;
  if (is<CorruptError>(error)) return CAIRN_CORRUPT;
  if (is<UnsupportedError>(error)) return CAIRN_UNSUPPORTED;
  if (is<MismatchError>(error)) return CAIRN_MISMATCH;
  if (is<UnreadableError>(error)) return CAIRN_UNREADABLE;
  if (is<StorageError>(error)) return CAIRN_STORAGE;
  if (is<OutOfMemoryError>(error) || is<std::bad_alloc>(error)) return CAIRN_OUT_OF_MEMORY;
  if (is<BusyError>(error)) return CAIRN_BUSY;
  if (is<CancelledError>(error)) return CAIRN_CANCELLED;
  if (is<TrainingError>(error)) return CAIRN_TRAINING;
  return CAIRN_OTHER;
}

cairn_error* error_of(const std::exception& error) {
  auto* made = new cairn_error{.status = status_of(error), .exit_code = exit_code_of(error)};
  if (const auto* storage = dynamic_cast<const StorageError*>(&error)) {
    made->number = storage->status();
    made->is_retryable = storage->retryable();
  }
  made->message = error.what();
  return made;
}

}  // namespace

cairn_status report_error(cairn_error** error) noexcept {
  cairn_error* made = &no_memory();
  try {
    throw;
  } catch (const std::exception& caught) {
    try {
      made = error_of(caught);
    } catch (const std::bad_alloc&) {  // `made` says so
    }
  } catch (...) {  // nothing of cairn's throws anything else
    return CAIRN_OTHER;
  }
  const cairn_status status = made->status;
  error != nullptr ? void(*error = made) : cairn_error_free(made);
  return status;
}

void require(const void* argument, const char* name) {
  if (argument == nullptr) throw UsageError(std::string(name) + " is null");
}

char* text_copy(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace cairn

const char* cairn_error_message(const cairn_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
int cairn_error_exit_code(const cairn_error* error) {
  return error == nullptr ? 0 : error->exit_code;
}
int cairn_error_number(const cairn_error* error) { return error == nullptr ? 0 : error->number; }
int cairn_error_is_retryable(const cairn_error* error) {
  return error != nullptr && error->is_retryable ? 1 : 0;
}
void cairn_error_free(cairn_error* error) {
  if (error != &cairn::no_memory()) delete error;
}

const char* cairn_version(void) { return CAIRN_VERSION; }

void cairn_text_free(char* text) { std::free(text); }

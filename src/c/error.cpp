#include "c/error.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "core/error_class.h"

struct cairn_error {
  cairn_status status = CAIRN_OTHER;
  int exit_code = cairn::kFailed;
  int number = 0;
  bool is_retryable = false;
  std::string message = {};
};

namespace cairn {
namespace {

// The error for the case that there is no memory for another one.
cairn_error& no_memory() {
  static cairn_error error{.status = CAIRN_OUT_OF_MEMORY, .message = "out of memory"};
  return error;
}

cairn_error& unknown_error() {
  static cairn_error error{.message = "an unknown error"};
  return error;
}

// In the order of cairn_status, without CAIRN_OK.
constexpr std::array<std::string_view, 12> kClasses = {
    "UsageError",       "NotFoundError", "AlreadyExistsError", "CorruptError",
    "UnsupportedError", "MismatchError", "StorageError",       "UnreadableError",
    "OutOfMemoryError", "BusyError",     "CancelledError",     "TrainingError"};
static_assert(kClasses.size() == CAIRN_TRAINING);

cairn_status status_of(const std::exception& error) {
  const auto found = std::ranges::find(kClasses, error_class(error));
  return found == kClasses.end() ? CAIRN_OTHER
                                 : static_cast<cairn_status>(found - kClasses.begin() + 1);
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
    made = &unknown_error();
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
  if (error != &cairn::no_memory() && error != &cairn::unknown_error()) delete error;
}

const char* cairn_version(void) { return CAIRN_VERSION; }

void cairn_text_free(char* text) { std::free(text); }

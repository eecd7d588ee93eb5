#include "io/read_fault.h"

#include <new>
#include <stdexcept>

#include "core/text/printable.h"

namespace cairn {

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const OutOfMemoryError*>(&error) != nullptr ||
         (dynamic_cast<const std::bad_alloc*>(&error) != nullptr &&
          dynamic_cast<const std::bad_array_new_length*>(&error) == nullptr);
}

ReadFault read_fault_of(const std::exception& error) {
  if (is_out_of_memory(error)) return ReadFault::kNow;
  if (memory_problem(error)) return ReadFault::kContent;
  if (dynamic_cast<const NotFoundError*>(&error) != nullptr) return ReadFault::kNoFile;
  if (dynamic_cast<const UnreadableError*>(&error) != nullptr) return ReadFault::kBytes;
  if (dynamic_cast<const ReaderMissingError*>(&error) != nullptr) return ReadFault::kNow;
  const bool is_of_content = dynamic_cast<const CorruptError*>(&error) != nullptr ||
                             dynamic_cast<const UnsupportedError*>(&error) != nullptr ||
                             dynamic_cast<const MismatchError*>(&error) != nullptr ||
                             dynamic_cast<const UsageError*>(&error) != nullptr;
  return is_of_content ? ReadFault::kContent : ReadFault::kNow;
}

std::optional<std::string> memory_problem(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr && is_out_of_memory(error)) {
    return "there is not enough memory";
  }
  if (dynamic_cast<const std::length_error*>(&error) != nullptr ||
      dynamic_cast<const std::bad_array_new_length*>(&error) != nullptr) {
    return "it asks for more memory than any machine has";
  }
  return std::nullopt;
}

std::string read_problem(const std::exception& error) {
  return memory_problem(error).value_or(printable_line(error.what()));
}

}  // namespace cairn

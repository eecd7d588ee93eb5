#include "base/read_fault.h"

#include <new>
#include <stdexcept>

#include "base/printable.h"

namespace cairn {
namespace {

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const std::length_error*>(&error) != nullptr;
}

}  // namespace

ReadFault read_fault_of(const std::exception& error) {
  if (is_out_of_memory(error)) return ReadFault::kContent;
  if (dynamic_cast<const NotFoundError*>(&error) != nullptr) return ReadFault::kNoFile;
  if (dynamic_cast<const UnreadableError*>(&error) != nullptr) return ReadFault::kBytes;
  if (dynamic_cast<const ReaderMissingError*>(&error) != nullptr) return ReadFault::kNow;
  const bool is_of_content = dynamic_cast<const CorruptError*>(&error) != nullptr ||
                             dynamic_cast<const UnsupportedError*>(&error) != nullptr ||
                             dynamic_cast<const MismatchError*>(&error) != nullptr ||
                             dynamic_cast<const UsageError*>(&error) != nullptr;
  return is_of_content ? ReadFault::kContent : ReadFault::kNow;
}

std::string read_problem(const std::exception& error) {
  if (is_out_of_memory(error)) return "looking into it takes more memory than there is";
  return printable_line(error.what());
}

}  // namespace cairn

// The message for a file that is two files one after the other, as `cat a b > c` makes it.
#pragma once

#include <cstdint>
#include <string>

namespace cairn {

inline std::string two_files_message(std::uint64_t second) {
  return "two files stand here one after the other, and the second begins at byte " +
         std::to_string(second) + "; cut them apart: \"head -c " + std::to_string(second) +
         " FILE > FIRST\" and \"tail -c +" + std::to_string(second + 1) + " FILE > SECOND\"";
}

}  // namespace cairn

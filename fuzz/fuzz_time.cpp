// Any text is a Time whose text gives the same Time, or a UsageError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cairn/error.h"
#include "cairn/time.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const cairn::Time time(text);
    if (cairn::Time(time.to_string()) != time) std::abort();
  } catch (const cairn::UsageError&) {
  }
  return 0;
}

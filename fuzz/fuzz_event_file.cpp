// Reads any bytes as an event file of TensorBoard: its events lie inside it, and nothing is thrown.
// No fuzzer guesses checksums, so the whole input is read as one event, too.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cairn/byte_source.h"

#include "cli/runs/event.h"
#include "cli/runs/event_records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)cairn::cli::event_of(text);
  const auto source = cairn::source_of({cairn::as_bytes(text), nullptr}, "fuzz");
  cairn::cli::EventRecords records(*source, 0);
  while (records.next() == cairn::cli::EventRecords::Found::kRecord) {
    if (records.offset() > size) std::abort();
    (void)cairn::cli::event_of(records.data());
  }
  return 0;
}

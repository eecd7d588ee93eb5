// A manifest is read from a file that anybody may have written: a Manifest, or one of two errors.
#include <cstdint>
#include <cstdlib>

#include "cairn/error.h"

#include "checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  try {
    const Manifest manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
    const std::vector<FileRecord> records = {{"data.pkl", 64, 10, 1}};
    (void)compare_with_records(manifest, records);
    // What was read can be written, and says the same when it is read again.
    const Manifest again = parse_manifest(write_manifest(manifest.info, records));
    if (again.info.kind != manifest.info.kind || again.info.run_name != manifest.info.run_name ||
        again.info.timestamp != manifest.info.timestamp) {
      std::abort();
    }
  } catch (const CorruptError&) {
  } catch (const UnsupportedError&) {
  }
  return 0;
}

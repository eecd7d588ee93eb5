// Reads any bytes as a manifest, as from an untrusted file: a Manifest, or one of two errors.
#include <cstdint>
#include <cstdlib>

#include "cairn/error.h"

#include "checkpoint/plan/manifest.h"

namespace cairn {
namespace {

void read(std::string_view text) {
  const Manifest manifest = parse_manifest(text);
  const std::vector<FileRecord> records = {{"data.pkl", 64, 10, 1}};
  (void)compare_with_records(manifest, records);
  // A manifest that was read can be written, and is the same when it is read again.
  const Manifest again = parse_manifest(manifest_text(manifest.info, records));
  if (again.info.kind != manifest.info.kind || again.info.run_name != manifest.info.run_name ||
      again.info.timestamp != manifest.info.timestamp) {
    std::abort();
  }
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    cairn::read({reinterpret_cast<const char*>(data), size});
  } catch (const cairn::CorruptError&) {
  } catch (const cairn::UnsupportedError&) {
  }
  return 0;
}

// Any bytes, opened as a file of torch.save: an answer or a typed error.
#include <cstdint>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "testing/counting_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  cairn::describe_bytes(bytes);
  try {
    const cairn::TorchFile file(std::make_shared<const cairn::testing::CountingSource>(
        cairn::source_of({bytes, nullptr}, "fuzz.pt")));  // which is read by ranges
    std::uint64_t offset = 0;
    file.has_canonical_layout(&offset);
    for (const cairn::FileRecord& record : file.records()) {
      file.matches_crc(record);
    }
    if (file.is_torchscript()) file.read_script_weights();
    file.read();
  } catch (const cairn::CorruptError&) {  // these two, and nothing else
  } catch (const cairn::UnsupportedError&) {
  }
  return 0;
}

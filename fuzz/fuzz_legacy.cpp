// Any bytes, read as a file of torch.save before PyTorch 1.6: objects or a typed error. Elements of
// tensors are reached as far as they go.
#include <cstdint>

#include "cairn/error.h"

#include "format/legacy/legacy_file.h"
#include "testing/counting_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::SharedBytes bytes{{reinterpret_cast<const std::byte*>(data), size}, nullptr};
  cairn::is_legacy_file(bytes.view);
  const auto source = std::make_shared<const cairn::testing::CountingSource>(
      cairn::source_of(bytes, "fuzz.pt"));  // which has no views, and is read by ranges
  try {
    for (std::uint64_t at = 0; at < size;) {
      const cairn::LegacyObject object = cairn::read_legacy_object(source, at);
      for (const auto& [path, tensor] : cairn::tensors_of(object.value)) {
        if (cairn::byte_size(*tensor) < 1 << 20) (void)tensor->contiguous_bytes();
      }
      at = object.end;
    }
  } catch (const cairn::CorruptError&) {  // these two, and nothing else
  } catch (const cairn::UnsupportedError&) {
  }
  return 0;
}

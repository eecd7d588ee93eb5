// Any bytes, opened as a safetensors file: an answer or a typed error.
#include <cstdint>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "format/safetensors/header.h"
#include "format/safetensors/ties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  cairn::safetensors::has_header(bytes);
  try {
    const cairn::SafetensorsFile file({bytes, nullptr}, "fuzz");
    cairn::safetensors::find_ties(file);
    const cairn::Value value = file.read();
    for (const auto& [path, tensor] : cairn::tensors_of(value)) {
      tensor->contiguous_bytes();
    }
  } catch (const cairn::CorruptError&) {  // these two, and nothing else
  } catch (const cairn::UnsupportedError&) {
  }
  return 0;
}

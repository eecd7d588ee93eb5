// Decompresses any bytes with every compression that their first bytes match. The result is an
// answer or a typed error, and never exceeds the limit. Without lzop, which is another program.
#include <cstdint>

#include "cairn/error.h"

#include "format/compression/codec.h"

namespace {

constexpr std::uint64_t kLimit = std::uint64_t{4} << 20;

class Discard final : public cairn::ByteSink {
 public:
  void write(cairn::ByteView bytes) override {
    size_ += bytes.size();
    if (size_ > kLimit) __builtin_trap();
  }

 private:
  std::uint64_t size_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto source =
      cairn::source_of({{reinterpret_cast<const std::byte*>(data), size}, nullptr}, "fuzz");
  for (const cairn::Codec* codec : cairn::codecs()) {
    if (codec->program != nullptr || !cairn::begins_as(*codec, *source)) continue;
    try {
      Discard sink;
      cairn::decode(*codec, *source, sink, kLimit);
    } catch (const cairn::CorruptError&) {
    } catch (const cairn::UnsupportedError&) {
    }
  }
  return 0;
}

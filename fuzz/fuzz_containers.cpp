// Any bytes, taken for every compression whose first bytes they have, and for a tar: an answer or a
// typed error, and never more than the limit. Without lzop, which is another program.
#include <cstdint>

#include "cairn/error.h"

#include "format/compression/codec.h"
#include "format/tar/reader.h"

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

// CorruptError and UnsupportedError, and nothing else.
void expect_typed(auto&& read) {
  try {
    read();
  } catch (const cairn::CorruptError&) {
  } catch (const cairn::UnsupportedError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const cairn::Codec* codec : cairn::codecs()) {
    if (codec->program != nullptr || !codec->matches(bytes)) continue;
    expect_typed([&] {
      Discard sink;
      cairn::decode(*codec, {bytes, nullptr}, sink, kLimit);
    });
  }
  if (!cairn::tar::is_tar(bytes)) return 0;
  expect_typed([&] {
    for (const cairn::tar::File& file : cairn::tar::read_files(bytes)) {
      if (file.offset > size || file.size > size - file.offset) __builtin_trap();
    }
  });
  return 0;
}

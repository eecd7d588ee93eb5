// The lz4 frame format, by liblz4.
#include <lz4frame.h>

#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "cairn/error.h"

#include "format/compression/block_encoder.h"
#include "format/compression/codec.h"
#include "format/compression/stream_decoder.h"

namespace cairn {
namespace {

constexpr std::size_t kLz4BlockBytes = std::size_t{4} << 20;  // the largest block of the format

class Lz4Stream final : public CompressedStream {
 public:
  Lz4Stream() {
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) != 0) {
      throw std::bad_alloc();
    }
  }
  ~Lz4Stream() override { LZ4F_freeDecompressionContext(context_); }
  Lz4Stream(const Lz4Stream&) = delete;
  Lz4Stream& operator=(const Lz4Stream&) = delete;

  Progress run(ByteView in, std::span<std::byte> out) override {
    Progress progress{.consumed = in.size(), .produced = out.size()};
    const std::size_t result = LZ4F_decompress(context_, out.data(), &progress.produced, in.data(),
                                               &progress.consumed, nullptr);
    if (LZ4F_isError(result) != 0 &&
        std::string_view(LZ4F_getErrorName(result)) == "ERROR_allocation_failed") {
      throw std::bad_alloc();
    }
    if (LZ4F_isError(result) != 0) {
      throw CorruptError(std::string("the lz4 data is damaged: ") + LZ4F_getErrorName(result));
    }
    progress.ended = result == 0;
    return progress;
  }
  void restart() override { LZ4F_resetDecompressionContext(context_); }

 private:
  LZ4F_dctx* context_ = nullptr;
};

bool is_lz4(ByteView bytes) { return as_text(bytes).starts_with("\x04\x22\x4d\x18"); }

std::unique_ptr<Filter> lz4_decoder(ByteSink& out) {
  return std::make_unique<StreamDecoder>(std::make_unique<Lz4Stream>(), AfterStream::kMoreStreams,
                                         out);
}

Block compress_lz4(ByteView block) {
  LZ4F_preferences_t preferences = {};
  preferences.frameInfo.blockSizeID = LZ4F_max4MB;
  preferences.frameInfo.blockMode = LZ4F_blockIndependent;
  preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  Block frame(LZ4F_compressFrameBound(block.size(), &preferences));
  const std::size_t size =
      LZ4F_compressFrame(frame.data(), frame.size(), block.data(), block.size(), &preferences);
  if (LZ4F_isError(size) != 0) throw std::bad_alloc();
  frame.resize(size);
  return frame;
}

std::unique_ptr<Filter> lz4_encoder(ByteSink& out) {
  return std::make_unique<BlockEncoder>(compress_lz4, kLz4BlockBytes, out);
}

}  // namespace

constinit const Codec kLz4 = {"lz4", is_lz4, lz4_decoder, lz4_encoder, nullptr, true};

}  // namespace cairn

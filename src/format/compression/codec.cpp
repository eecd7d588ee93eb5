#include "format/compression/codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "cairn/error.h"

#include "io/pieces.h"

namespace cairn {
namespace {

constexpr std::size_t kDecodePieceBytes = std::size_t{256} << 10;

class LimitedSink final : public ByteSink {
 public:
  LimitedSink(ByteSink& to, std::uint64_t limit) : to_(to), limit_(limit), left_(limit) {}
  void write(ByteView bytes) override {
    if (bytes.size() > left_) {
      throw UnsupportedError("expands to more than " + std::to_string(limit_) +
                             " bytes; if it is to be trusted, decompress it with its own tool");
    }
    left_ -= bytes.size();
    to_.write(bytes);
  }

 private:
  ByteSink& to_;
  std::uint64_t limit_;
  std::uint64_t left_;
};

}  // namespace

std::span<const Codec* const> codecs() {
  // LZMA alone last: it has no magic number, only a header that others are unlikely to look like.
  static constexpr std::array<const Codec*, 7> kAll = {&kGzip, &kBzip2, &kXz,  &kLz4,
                                                       &kZstd, &kLzop,  &kLzma};
  return kAll;
}

void decode(const Codec& codec, const SharedBytes& bytes, ByteSink& out, std::uint64_t limit) {
  LimitedSink limited(out, limit);
  const auto decoder = codec.decoder(limited);
  for_each_piece(bytes, kDecodePieceBytes, [&](ByteView piece) { decoder->write(piece); });
  decoder->finish();
}

unsigned compression_threads() {
  // More than 16 would take more memory than kEncoderMemory allows most codecs.
  return std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
}

}  // namespace cairn

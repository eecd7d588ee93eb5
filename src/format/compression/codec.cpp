#include "format/compression/codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "cairn/error.h"

#include "format/compression/skippable_frames.h"
#include "io/bytes/pieces.h"
#include "io/bytes/read_ahead.h"

namespace cairn {
namespace {

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
  // kLzma (.lzma files) is last: it has no magic number, only a header that other data rarely
  // resembles.
  static constexpr std::array<const Codec*, 7> kAll = {&kGzip, &kBzip2, &kXz,  &kLz4,
                                                       &kZstd, &kLzop,  &kLzma};
  return kAll;
}

void decode(const Codec& codec, const ByteSource& source, ByteSink& out, std::uint64_t limit) {
  LimitedSink limited(out, limit);
  const auto decoder = codec.decoder(limited);
  for_each_piece(source, 0, source.size(), [&](ByteView piece) { decoder->write(piece); });
  decoder->finish();
}

bool begins_as(const Codec& codec, const ByteSource& source) {
  constexpr std::uint64_t kMaxMagicBytes = 64;
  constexpr std::uint64_t kMaxFrameBytes = std::uint64_t{64} << 10;
  ReadAhead ahead(source, codec.has_skippable_frames ? kMaxFrameBytes : kMaxMagicBytes);
  std::uint64_t at = 0;
  while (codec.has_skippable_frames) {
    const auto size = skippable_frame_size(ahead.at(at, kSkippableHeaderBytes));
    if (!size) break;
    if (*size > source.size() - at) return false;
    at += *size;
  }
  return codec.matches(ahead.at(at, kMaxMagicBytes));
}

unsigned compression_threads() {
  // With more than 16 threads, most codecs would need more memory than kEncoderMemory.
  return std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
}

}  // namespace cairn

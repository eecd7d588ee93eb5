// bzip2, by libbz2.
#include <bzlib.h>

#include <memory>
#include <new>

#include "cairn/error.h"

#include "format/compression/block_encoder.h"
#include "format/compression/codec.h"
#include "format/compression/stream_decoder.h"

namespace cairn {
namespace {

constexpr int kBzip2Level = 9;                                  // bzip2's default
constexpr std::size_t kBzip2BlockBytes = std::size_t{900'000};  // bzip2's unit of work at level 9

class Bzip2Stream final : public CompressedStream {
 public:
  Bzip2Stream() { begin(); }
  ~Bzip2Stream() override { BZ2_bzDecompressEnd(&stream_); }
  Bzip2Stream(const Bzip2Stream&) = delete;
  Bzip2Stream& operator=(const Bzip2Stream&) = delete;

  Progress run(ByteView in, std::span<std::byte> out) override {
    // The library takes a char*, and only reads from it.
    stream_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = reinterpret_cast<char*>(out.data());
    stream_.avail_out = static_cast<unsigned>(out.size());
    const int result = BZ2_bzDecompress(&stream_);
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    if (result != BZ_OK && result != BZ_STREAM_END) {
      throw CorruptError(result == BZ_DATA_ERROR_MAGIC ? "this is no bzip2 data"
                                                       : "the bzip2 data is damaged");
    }
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, result == BZ_STREAM_END};
  }
  void restart() override {
    BZ2_bzDecompressEnd(&stream_);
    begin();
  }

 private:
  void begin() {
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, /*verbosity=*/0, /*small=*/0) != BZ_OK) {
      throw std::bad_alloc();
    }
  }

  bz_stream stream_ = {};
};

// A bzip2 file begins with "BZh", the level, and the mark of a block (or of the end, if there is no
// block).
bool is_bzip2(ByteView bytes) {
  const std::string_view text = as_text(bytes);
  if (text.size() < 10 || !text.starts_with("BZh") || text[3] < '1' || text[3] > '9') return false;
  const std::string_view mark = text.substr(4, 6);
  return mark == "1AY&SY" || mark == "\x17\x72\x45\x38\x50\x90";
}

std::unique_ptr<Filter> bzip2_decoder(ByteSink& out) {
  return std::make_unique<StreamDecoder>(std::make_unique<Bzip2Stream>(),
                                         AfterStream::kMoreStreamsOrZeros, out);
}

// The library refuses to compress empty input. So this returns the header, the mark of the end, and
// a checksum of 0.
Block empty_stream() {
  const ByteView bytes = as_bytes(std::string_view("BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", 14));
  return {bytes.begin(), bytes.end()};
}

Block compress_bzip2(ByteView block) {
  if (block.empty()) return empty_stream();
  // The bound that the library's manual gives.
  Block stream(block.size() + block.size() / 100 + 600);
  auto size = static_cast<unsigned>(stream.size());
  const int result = BZ2_bzBuffToBuffCompress(
      reinterpret_cast<char*>(stream.data()), &size,
      reinterpret_cast<char*>(const_cast<std::byte*>(block.data())),
      static_cast<unsigned>(block.size()), kBzip2Level, /*verbosity=*/0, /*workFactor=*/0);
  if (result != BZ_OK) throw std::bad_alloc();
  stream.resize(size);
  return stream;
}

std::unique_ptr<Filter> bzip2_encoder(ByteSink& out) {
  return std::make_unique<BlockEncoder>(compress_bzip2, kBzip2BlockBytes, out);
}

}  // namespace

constinit const Codec kBzip2 = {"bzip2", is_bzip2, bzip2_decoder, bzip2_encoder};

}  // namespace cairn

// gzip, and deflate without gzip's header. zlib reads both; libdeflate, which is twice as fast and
// needs whole blocks, writes gzip.
#include <libdeflate.h>
#include <zlib.h>

#include <memory>
#include <new>
#include <string>

#include "cairn/error.h"

#include "format/compression/block_encoder.h"
#include "format/compression/codec.h"
#include "format/compression/stream_decoder.h"

namespace cairn {
namespace {

constexpr int kInflateWindow = 15;
constexpr int kGzipOnly = kInflateWindow + 16;  // does not accept the zlib format
constexpr int kNoHeader = -kInflateWindow;      // deflate alone
constexpr std::size_t kGzipBlockBytes = std::size_t{1} << 20;
constexpr int kGzipLevel = 6;  // gzip's default

class InflateStream final : public CompressedStream {
 public:
  explicit InflateStream(int window) {
    if (inflateInit2(&stream_, window) != Z_OK) throw std::bad_alloc();
  }
  ~InflateStream() override { inflateEnd(&stream_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  Progress run(ByteView in, std::span<std::byte> out) override {
    // zlib only reads what it is given.
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      throw CorruptError(std::string("the compressed data is damaged: ") +
                         (stream_.msg != nullptr ? stream_.msg : "it needs a dictionary"));
    }
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, result == Z_STREAM_END};
  }
  void restart() override { inflateReset(&stream_); }

 private:
  z_stream stream_ = {};
};

bool is_gzip(ByteView bytes) { return as_text(bytes).starts_with("\x1f\x8b\x08"); }

std::unique_ptr<Filter> gzip_decoder(ByteSink& out) {
  return std::make_unique<StreamDecoder>(std::make_unique<InflateStream>(kGzipOnly),
                                         AfterStream::kMoreStreamsOrZeros, out);
}

std::unique_ptr<Filter> deflate_decoder(ByteSink& out) {
  return std::make_unique<StreamDecoder>(std::make_unique<InflateStream>(kNoHeader),
                                         AfterStream::kNothing, out);
}

Block compress_gzip(ByteView block) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(kGzipLevel), libdeflate_free_compressor);
  if (compressor == nullptr) throw std::bad_alloc();
  Block stream(libdeflate_gzip_compress_bound(compressor.get(), block.size()));
  stream.resize(libdeflate_gzip_compress(compressor.get(), block.data(), block.size(),
                                         stream.data(), stream.size()));
  return stream;
}

std::unique_ptr<Filter> gzip_encoder(ByteSink& out) {
  return std::make_unique<BlockEncoder>(compress_gzip, kGzipBlockBytes, out);
}

}  // namespace

constinit const Codec kGzip = {"gzip", is_gzip, gzip_decoder, gzip_encoder};
constinit const Codec kDeflate = {"deflate", nullptr, deflate_decoder, nullptr};

}  // namespace cairn

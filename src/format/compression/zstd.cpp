// zstd, by libzstd, which has threads of its own.
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "format/compression/codec.h"
#include "format/compression/stream_decoder.h"

namespace cairn {
namespace {

constexpr int kZstdLevel = 3;       // zstd's default
constexpr int kLargestWindow = 27;  // 128 MiB: the tool accepts it by default
constexpr int kJobBytes = 2 << 20;  // the bytes that one thread compresses at a time

class ZstdStream final : public CompressedStream {
 public:
  ZstdStream() {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kLargestWindow);
  }

  Progress run(ByteView in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t result = ZSTD_decompressStream(context_.get(), &to, &from);
    if (ZSTD_isError(result) != 0) fail(result);
    return {from.pos, to.pos, result == 0};
  }
  void restart() override { ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only); }

 private:
  [[noreturn]] static void fail(std::size_t result) {
    switch (ZSTD_getErrorCode(result)) {
      case ZSTD_error_memory_allocation:
        throw std::bad_alloc();
      case ZSTD_error_frameParameter_windowTooLarge:
        throw UnsupportedError("compressed with a window of more than 128 MiB (zstd --long=28 or " +
                               std::string("larger); decompress it with `zstd -d --long=31`"));
      case ZSTD_error_dictionary_wrong:
        throw UnsupportedError("compressed with a dictionary; decompress it with `zstd -d -D`");
      default:
        throw CorruptError(std::string("the zstd data is damaged: ") + ZSTD_getErrorName(result));
    }
  }

  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_{ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx};
};

class ZstdEncoder final : public Filter {
 public:
  explicit ZstdEncoder(ByteSink& out) : out_(out), buffer_(ZSTD_CStreamOutSize()) {
    if (context_ == nullptr) throw std::bad_alloc();
    set(ZSTD_c_compressionLevel, kZstdLevel);
    set(ZSTD_c_checksumFlag, 1);
    // A library that was built without threads refuses these two parameters and works alone.
    set(ZSTD_c_nbWorkers, static_cast<int>(compression_threads()));
    set(ZSTD_c_jobSize, kJobBytes);
  }

  void write(ByteView bytes) override {
    ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
    while (from.pos < from.size) {
      run(from, ZSTD_e_continue);
    }
  }
  void finish() override {
    ZSTD_inBuffer none{nullptr, 0, 0};
    while (run(none, ZSTD_e_end) != 0) {
    }
  }

 private:
  void set(ZSTD_cParameter parameter, int value) {
    ZSTD_CCtx_setParameter(context_.get(), parameter, value);
  }

  // Returns 0 when everything is written.
  std::size_t run(ZSTD_inBuffer& from, ZSTD_EndDirective directive) {
    ZSTD_outBuffer to{buffer_.data(), buffer_.size(), 0};
    const std::size_t left = ZSTD_compressStream2(context_.get(), &to, &from, directive);
    if (ZSTD_isError(left) != 0) throw std::bad_alloc();  // it cannot fail otherwise
    out_.write(ByteView(buffer_).first(to.pos));
    return left;
  }

  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context_{ZSTD_createCCtx(),
                                                                   ZSTD_freeCCtx};
  ByteSink& out_;
  std::vector<std::byte> buffer_;
};

bool is_zstd(ByteView bytes) { return as_text(bytes).starts_with("\x28\xb5\x2f\xfd"); }

std::unique_ptr<Filter> zstd_decoder(ByteSink& out) {
  return std::make_unique<StreamDecoder>(std::make_unique<ZstdStream>(), AfterStream::kMoreStreams,
                                         out);
}

std::unique_ptr<Filter> zstd_encoder(ByteSink& out) { return std::make_unique<ZstdEncoder>(out); }

}  // namespace

constinit const Codec kZstd = {"zstd", is_zstd, zstd_decoder, zstd_encoder, nullptr, true};

}  // namespace cairn

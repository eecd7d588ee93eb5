// xz, and the format before it, "LZMA alone": both by liblzma.
//
// Composer's ".tar.lzma" holds xz; its ".pt.lzma" was made by the program `lzma` and holds LZMA
// alone, which has no checksum and can only be written by one thread.
#include <lzma.h>

#include <bit>
#include <memory>
#include <new>
#include <vector>

#include "cairn/error.h"

#include "core/little_endian.h"
#include "format/compression/codec.h"
#include "format/compression/stream_decoder.h"

namespace cairn {
namespace {

// The tools' default, 6, makes parameters less than 1 % smaller and takes six times the memory for
// each thread, so that few threads would fit into kEncoderMemory.
constexpr std::uint32_t kPreset = 1;

// Owns the library's state; `init` is one of its lzma_..._encoder/decoder calls.
class LzmaStream {
 public:
  explicit LzmaStream(const auto& init) {
    if (init(&stream_) != LZMA_OK) throw std::bad_alloc();
  }
  ~LzmaStream() { lzma_end(&stream_); }
  LzmaStream(const LzmaStream&) = delete;
  LzmaStream& operator=(const LzmaStream&) = delete;

  lzma_ret run(ByteView in, std::span<std::byte> out, lzma_action action) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret result = lzma_code(&stream_, action);
    if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
    consumed = in.size() - stream_.avail_in;
    produced = out.size() - stream_.avail_out;
    return result;
  }

  std::size_t consumed = 0;  // by the last run()
  std::size_t produced = 0;

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

lzma_ret begin_xz_decoder(lzma_stream* stream) {
#if LZMA_VERSION >= 50040002
  lzma_mt options = {};
  options.flags = LZMA_CONCATENATED;
  options.threads = compression_threads();
  options.memlimit_threading = kDecoderMemory;  // lowers the number of threads if needed
  options.memlimit_stop = kDecoderMemory;
  return lzma_stream_decoder_mt(stream, &options);
#else
  return lzma_stream_decoder(stream, kDecoderMemory, LZMA_CONCATENATED);
#endif
}

lzma_ret begin_lzma_decoder(lzma_stream* stream) {
  return lzma_alone_decoder(stream, kDecoderMemory);
}

// liblzma itself continues with the next xz stream and skips the padding. LZMA alone has neither
// further streams nor padding.
class LzmaDecoder final : public CompressedStream {
 public:
  explicit LzmaDecoder(lzma_ret (*init)(lzma_stream*)) : stream_(init) {}

  Progress run(ByteView in, std::span<std::byte> out) override {
    const lzma_ret result = stream_.run(in, out, in.empty() ? LZMA_FINISH : LZMA_RUN);
    if (result == LZMA_MEMLIMIT_ERROR) {
      throw UnsupportedError(
          "compressed with a dictionary of more than 128 MiB; decompress it with `xz -d`");
    }
    if (result == LZMA_FORMAT_ERROR) {
      throw CorruptError("something else stands where compressed data should begin");
    }
    if (result != LZMA_OK && result != LZMA_STREAM_END && result != LZMA_BUF_ERROR) {
      throw CorruptError(result == LZMA_OPTIONS_ERROR ? "the compressed data names no known filter"
                                                      : "the compressed data is damaged");
    }
    return {stream_.consumed, stream_.produced, result == LZMA_STREAM_END};
  }
  void restart() override {}

 private:
  LzmaStream stream_;
};

class LzmaEncoder final : public Filter {
 public:
  LzmaEncoder(lzma_ret (*init)(lzma_stream*), ByteSink& out)
      : stream_(init), out_(out), buffer_(std::size_t{64} << 10) {}

  void write(ByteView bytes) override {
    while (!bytes.empty()) {
      run(bytes, LZMA_RUN);
      bytes = bytes.subspan(stream_.consumed);
    }
  }
  void finish() override {
    while (!run({}, LZMA_FINISH)) {
    }
  }

 private:
  // Returns true at the end.
  bool run(ByteView bytes, lzma_action action) {
    const lzma_ret result = stream_.run(bytes, buffer_, action);
    if (result != LZMA_OK && result != LZMA_STREAM_END) {
      throw Error("compressing with liblzma failed (code " + std::to_string(result) + ")");
    }
    out_.write(ByteView(buffer_).first(stream_.produced));
    return result == LZMA_STREAM_END;
  }

  LzmaStream stream_;
  ByteSink& out_;
  std::vector<std::byte> buffer_;
};

lzma_ret begin_xz_encoder(lzma_stream* stream) {
  lzma_mt options = {};
  options.preset = kPreset;
  options.check = LZMA_CHECK_CRC64;
  options.threads = compression_threads();
  while (options.threads > 1 && lzma_stream_encoder_mt_memusage(&options) > kEncoderMemory) {
    --options.threads;
  }
  return lzma_stream_encoder_mt(stream, &options);
}

lzma_ret begin_lzma_encoder(lzma_stream* stream) {
  lzma_options_lzma options;
  if (lzma_lzma_preset(&options, kPreset) != 0) return LZMA_OPTIONS_ERROR;
  return lzma_alone_encoder(stream, &options);
}

bool matches_xz(ByteView bytes) {
  return as_text(bytes).starts_with(std::string_view("\xfd\x37zXZ\0", 6));
}

// The header: u8 properties, u32 dictionary, u64 size or all ones, then a first byte that is always
// 0. There is no magic number; xz demands these same values before it accepts a file.
bool matches_lzma(ByteView bytes) {
  constexpr std::size_t kHeader = 13;
  constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  if (bytes.size() <= kHeader || bytes[kHeader] != std::byte{}) return false;
  const auto properties = static_cast<unsigned>(bytes[0]);
  const auto dictionary = load_little_endian<std::uint32_t>(bytes.data() + 1);
  const auto size = load_little_endian<std::uint64_t>(bytes.data() + 5);
  // 2^n or 2^n + 2^(n-1)
  const int ones = std::popcount(dictionary);
  const bool is_usual = ones == 1 || (ones == 2 && (dictionary & (dictionary >> 1)) != 0);
  return properties < 225 && is_usual && (size == kUnknown || size < std::uint64_t{1} << 38);
}

template <lzma_ret (*kInit)(lzma_stream*), AfterStream kAfter>
std::unique_ptr<Filter> decoder(ByteSink& out) {
  return std::make_unique<StreamDecoder>(std::make_unique<LzmaDecoder>(kInit), kAfter, out);
}

template <lzma_ret (*kInit)(lzma_stream*)>
std::unique_ptr<Filter> encoder(ByteSink& out) {
  return std::make_unique<LzmaEncoder>(kInit, out);
}

}  // namespace

constinit const Codec kXz = {"xz", matches_xz, decoder<begin_xz_decoder, AfterStream::kNothing>,
                             encoder<begin_xz_encoder>};
constinit const Codec kLzma = {"lzma", matches_lzma,
                               decoder<begin_lzma_decoder, AfterStream::kNothing>,
                               encoder<begin_lzma_encoder>};

}  // namespace cairn

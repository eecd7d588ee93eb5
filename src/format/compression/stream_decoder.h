// The loop around a library's decompressor. Takes and gives pieces, and handles several streams one
// after another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/compression/filter.h"

namespace cairn {

// One compressed stream, with the interface that the libraries share.
class CompressedStream {
 public:
  struct Progress {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool ended = false;
  };
  virtual ~CompressedStream() = default;

  // Decompresses some of `in` into `out`. An empty `in` says that there is no more input. A result
  // without progress says that more input is needed. Throws CorruptError without an offset.
  virtual Progress run(ByteView in, std::span<std::byte> out) = 0;
  // Prepares for the next stream, after one has ended.
  virtual void restart() = 0;
};

// The data that the format's own tool accepts after the end of a stream.
enum class AfterStream : std::uint8_t {
  kNothing,
  kMoreStreams,
  kMoreStreamsOrZeros,  // zeros up to the end of the file
};

class StreamDecoder final : public Filter {
 public:
  StreamDecoder(std::unique_ptr<CompressedStream> stream, AfterStream after, ByteSink& out);

  void write(ByteView bytes) override;
  void finish() override;

 private:
  enum class State : std::uint8_t { kInside, kBetween, kZeros };

  CompressedStream::Progress run(ByteView in);
  ByteView begin_next(ByteView in);
  [[noreturn]] void garbage() const;

  std::unique_ptr<CompressedStream> stream_;
  const AfterStream after_;
  ByteSink& out_;
  std::vector<std::byte> buffer_;
  State state_ = State::kInside;
  std::uint64_t offset_ = 0;    // of the next byte, in the compressed data
  std::uint64_t begin_ = 0;     // of the current stream
  std::uint64_t produced_ = 0;  // by the current stream
};

}  // namespace cairn

#include "format/compression/stream_decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

}  // namespace

StreamDecoder::StreamDecoder(std::unique_ptr<CompressedStream> stream, AfterStream after,
                             ByteSink& out)
    : stream_(std::move(stream)), after_(after), out_(out), buffer_(kBufferBytes) {}

void StreamDecoder::write(ByteView bytes) {
  while (!bytes.empty()) {
    if (state_ != State::kInside) bytes = begin_next(bytes);
    if (!bytes.empty()) bytes = bytes.subspan(run(bytes).consumed);
  }
}

void StreamDecoder::finish() {
  while (state_ == State::kInside) {
    const auto progress = run({});
    if (progress.produced == 0 && !progress.ended) {
      throw CorruptError("the compressed data is cut off", {}, offset_);
    }
  }
}

CompressedStream::Progress StreamDecoder::run(ByteView in) {
  CompressedStream::Progress progress;
  try {
    progress = stream_->run(in, buffer_);
    const bool is_stuck = progress.consumed == 0 && progress.produced == 0 && !progress.ended;
    if (is_stuck && !in.empty()) throw CorruptError("the compressed data makes no sense");
  } catch (const CorruptError& e) {
    if (begin_ != 0 && produced_ == 0) garbage();
    throw CorruptError(e.what(), {}, offset_);
  }
  out_.write(ByteView(buffer_).first(progress.produced));
  offset_ += progress.consumed;
  produced_ += progress.produced;
  if (progress.ended) state_ = State::kBetween;
  return progress;
}

// After the end of a stream: skips zeros, or begins the next stream.
ByteView StreamDecoder::begin_next(ByteView in) {
  if (after_ == AfterStream::kNothing) garbage();
  if (after_ == AfterStream::kMoreStreamsOrZeros &&
      (in[0] == std::byte{} || state_ == State::kZeros)) {
    state_ = State::kZeros;
    const auto end =
        std::find_if(in.begin(), in.end(), [](std::byte b) { return b != std::byte{}; });
    offset_ += static_cast<std::size_t>(end - in.begin());
    if (end != in.end()) garbage();
    return {};
  }
  stream_->restart();
  state_ = State::kInside;
  begin_ = offset_;
  produced_ = 0;
  return in;
}

void StreamDecoder::garbage() const {
  throw CorruptError("something else follows the end of the compressed data", {}, offset_);
}

}  // namespace cairn

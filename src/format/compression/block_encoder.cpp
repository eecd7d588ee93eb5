#include "format/compression/block_encoder.h"

#include <algorithm>
#include <utility>

#include "format/compression/codec.h"

namespace cairn {

BlockEncoder::BlockEncoder(Compress compress, std::size_t block_bytes, ByteSink& out)
    : compress_(compress), block_bytes_(block_bytes), out_(out) {}

void BlockEncoder::write(ByteView bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_bytes_ - block_.size());
    block_.reserve(block_bytes_);
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (block_.size() == block_bytes_) submit_block();
  }
}

void BlockEncoder::finish() {
  // If nothing was written, the output is one empty stream.
  if (!block_.empty() || is_empty_) submit_block();
  while (!under_way_.empty()) {
    write_oldest();
  }
}

void BlockEncoder::submit_block() {
  if (under_way_.size() == compression_threads()) write_oldest();
  is_empty_ = false;
  // std::async() defers the call if no thread is available: then write_oldest() does the work.
  under_way_.push_back(std::async(
      std::launch::async | std::launch::deferred,
      [compress = compress_, block = std::exchange(block_, {})] { return compress(block); }));
}

void BlockEncoder::write_oldest() {
  const Block stream = under_way_.front().get();
  under_way_.pop_front();
  out_.write(stream);
}

}  // namespace cairn

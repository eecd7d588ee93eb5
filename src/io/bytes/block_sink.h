// Bytes of any length into large aligned blocks: a bounded ring between what is copied from live
// memory and what is being written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cairn/bytes.h"

#include "io/bytes/copying_sink.h"
#include "io/bytes/line_writer.h"
#include "io/bytes/positional_sink.h"

namespace cairn {

// How large the blocks are in which a file of that size is written: some for a small one, so that
// writing and filling overlap, and 4 MiB at most.
std::size_t block_bytes(std::uint64_t file_bytes);

class BlockSink final : public CopyingSink {
 public:
  // Holds four blocks until it, and whoever keeps what was written, is gone; their memory is kept
  // for the next one. `to` must outlive it.
  BlockSink(PositionalSink& to, std::size_t block_bytes);
  ~BlockSink() override;

  // Waits for `to` to let go of a block when all are full.
  void write(ByteView bytes) override;
  std::uint32_t write_with_crc32(ByteView bytes, std::uint32_t before) override;
  // Hands over the last block. Nothing may follow.
  void finish();
  // How many bytes were written.
  std::uint64_t position() const { return begin_ + used_; }

 private:
  class Ring;

  // Calls write(part) for each part of `bytes` that goes into one block, to block_ + used_.
  template <class Write>
  void write_by(ByteView bytes, const Write& write);
  bool goes_past_cache() const;
  void hand_over();

  PositionalSink& to_;
  std::size_t block_bytes_;
  std::shared_ptr<Ring> ring_;
  LineWriter lines_;            // into the blocks, where it goes past the cache
  std::byte* block_ = nullptr;  // that is being filled
  std::uint64_t begin_ = 0;     // its place in the file
  std::size_t used_ = 0;
};

}  // namespace cairn

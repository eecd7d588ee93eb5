// Gathers bytes of any length into large aligned blocks: a bounded ring between live memory and the
// writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cairn/bytes.h"

#include "io/bytes/copying_sink.h"
#include "io/bytes/line_writer.h"
#include "io/bytes/positional_sink.h"

namespace cairn {

// Returns the block size for a file of `file_bytes`. A small file gets several blocks, so that
// filling and writing overlap. At most 4 MiB.
std::size_t block_bytes(std::uint64_t file_bytes);

class BlockSink final : public CopyingSink {
 public:
  // Holds four blocks until this sink and every owner of written bytes are gone. The blocks' memory
  // is then kept for the next sink. `to` must outlive this sink.
  BlockSink(PositionalSink& to, std::size_t block_bytes);
  ~BlockSink() override;

  // Waits until `to` releases a block when all blocks are full.
  void write(ByteView bytes) override;
  std::uint32_t write_with_crc32(ByteView bytes, std::uint32_t before) override;
  // Hands over the last block. Call nothing after it.
  void finish();
  // Returns how many bytes were written.
  std::uint64_t position() const { return begin_ + used_; }

 private:
  class Ring;

  // Calls write(part) for each part of `bytes` that goes into one block, at block_ + used_.
  template <class Write>
  void write_by(ByteView bytes, const Write& write);
  bool goes_past_cache() const;
  void hand_over();

  PositionalSink& to_;
  std::size_t block_bytes_;
  std::shared_ptr<Ring> ring_;
  LineWriter lines_;            // into the blocks, if they are written past the cache
  std::byte* block_ = nullptr;  // the block being filled
  std::uint64_t begin_ = 0;     // the block's offset in the file
  std::size_t used_ = 0;
};

}  // namespace cairn

// Compresses on all cores with a library that has no threads of its own. The written bytes are cut
// into blocks, each block becomes a complete stream, and the streams follow one another. The tools
// read such a file as one stream (`cat a.gz b.gz | gzip -d`).
#pragma once

#include <deque>
#include <future>
#include <vector>

#include "format/compression/filter.h"

namespace cairn {

using Block = std::vector<std::byte>;

class BlockEncoder final : public Filter {
 public:
  // Compresses a block into one complete stream. Called on several threads at once.
  using Compress = Block (*)(ByteView block);

  // Holds blocks and their streams: at most twice `block_bytes` for each thread.
  BlockEncoder(Compress compress, std::size_t block_bytes, ByteSink& out);

  void write(ByteView bytes) override;
  void finish() override;

 private:
  void submit_block();
  void write_oldest();

  const Compress compress_;
  const std::size_t block_bytes_;
  ByteSink& out_;
  Block block_;
  std::deque<std::future<Block>> under_way_;  // in order; the destructor of each waits
  bool is_empty_ = true;
};

}  // namespace cairn

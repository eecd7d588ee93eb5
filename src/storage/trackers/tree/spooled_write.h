// Writes an object to a server that accepts objects in one request, with the size before the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cairn/storage/object_store.h"

#include "io/memory/spill.h"

namespace cairn {

// Keeps the written bytes (io/memory/spill.h); commit() passes all of them to `send`.
class SpooledWrite final : public ObjectWrite {
 public:
  struct What {
    std::string name;          // for messages
    std::uint64_t most_bytes;  // more is refused before anything is sent
    std::uint64_t expected_bytes = 0;
  };
  using Send = std::function<void(const SharedBytes& bytes)>;

  // Throws UsageError if more than most_bytes are expected.
  SpooledWrite(What what, Send send);
  void write(ByteView bytes) override;

 private:
  void publish() override;
  void check_size(std::uint64_t bytes) const;

  What what_;
  Send send_;
  std::uint64_t size_ = 0;
  SpillSink kept_;
};

}  // namespace cairn

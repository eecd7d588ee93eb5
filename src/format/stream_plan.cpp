#include "format/stream_plan.h"

#include <utility>

#include "cairn/error.h"

#include "core/crc32.h"
#include "core/xxh3.h"
#include "io/copying_sink.h"
#include "io/gap_bridge.h"
#include "io/pieces.h"
#include "value/tensor_stream.h"

namespace cairn {
namespace {

constexpr std::size_t kCachedBytes = std::size_t{256} << 10;

// The parts of a plan, streamed. A storage that is made when it is asked for is made once for parts
// that follow one another.
class PartStream {
 public:
  explicit PartStream(const CheckpointPlan& plan) : plan_(plan) {}

  void write(std::size_t index, ByteSink& sink) {
    try {
      write(plan_.parts()[index], sink);
    } catch (Error& e) {
      const std::string name = plan_.name_of(index);
      if (!name.empty()) e.add_context(name);
      throw;
    }
  }

 private:
  void write(const CheckpointPlan::Part& part, ByteSink& sink) {
    if (part.size == 0) return;
    if (part.storage.get() != loaded_) {
      bytes_ = {};  // before the next one is loaded
      loaded_ = nullptr;
      bytes_ = part.storage->bytes();
      loaded_ = part.storage.get();
    }
    bridge_.before(bytes_.view);
    if (part.elements != nullptr) return write_elements(*part.elements, bytes_, sink);
    for_each_piece(bytes_, kCachedBytes, [&](ByteView piece) { sink.write(piece); });
  }

  const CheckpointPlan& plan_;
  const Storage* loaded_ = nullptr;
  GapBridge bridge_;
  SharedBytes bytes_;
};

// The CRC-32 of every part; in the same pass as the copy, where `to` makes one.
class CrcSink final : public ByteSink {
 public:
  explicit CrcSink(ByteSink& to) : to_(to), copying_(dynamic_cast<CopyingSink*>(&to)) {}
  void write(ByteView bytes) override {
    if (copying_ != nullptr) {
      crc_ = copying_->write_with_crc32(bytes, crc_);
    } else {
      crc_ = crc32(bytes, crc_);
      to_.write(bytes);
    }
  }
  // Of what was written since the last time.
  std::uint32_t take_crc() { return std::exchange(crc_, 0); }

 private:
  ByteSink& to_;
  CopyingSink* copying_;
  std::uint32_t crc_ = 0;
};

}  // namespace

std::vector<std::uint64_t> xxh3_of_parts(const CheckpointPlan& plan) {
  PartStream parts(plan);
  std::vector<std::uint64_t> digests;
  digests.reserve(plan.parts().size());
  for (std::size_t i = 0; i < plan.parts().size(); ++i) {
    Xxh3 hash;
    parts.write(i, hash);
    digests.push_back(hash.digest64());
  }
  return digests;
}

void set_between(const CheckpointPlan& plan, std::size_t index,
                 std::span<const std::uint64_t> checks, std::string& text) {
  text.clear();
  plan.append_between(index, checks, text);
  if (index == plan.parts().size()) return;
  const std::uint64_t room = plan.parts()[index].offset - plan.between_begin(index);
  if (text.size() != room) {
    throw UsageError("the bytes before part " + std::to_string(index) + " of the file are " +
                     std::to_string(text.size()) + ", planned were " + std::to_string(room));
  }
}

void stream_plan(const CheckpointPlan& plan, ByteSink& sink) {
  const std::size_t count = plan.parts().size();
  std::vector<std::uint64_t> checks = plan.check() == CheckpointPlan::Check::kXxh3First
                                          ? xxh3_of_parts(plan)
                                          : std::vector<std::uint64_t>(count);
  PartStream parts(plan);
  CrcSink with_crc(sink);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    set_between(plan, i, checks, text);
    sink.write(as_bytes(text));
    if (plan.check() == CheckpointPlan::Check::kCrc32) {
      parts.write(i, with_crc);
      checks[i] = with_crc.take_crc();
    } else {
      parts.write(i, sink);
    }
  }
  set_between(plan, count, checks, text);
  sink.write(as_bytes(text));
}

}  // namespace cairn

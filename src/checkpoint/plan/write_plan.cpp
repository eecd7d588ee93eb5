#include "checkpoint/plan/write_plan.h"

#include <algorithm>

#include "cairn/error.h"

#include "format/stream_plan.h"
#include "io/bytes/block_sink.h"

namespace cairn {
namespace {

class TeeSink final : public PositionalSink {
 public:
  TeeSink(PositionalSink& to, ByteSink* also) : to_(to), also_(also) {}
  void write(std::uint64_t offset, const SharedBytes& bytes) override {
    if (also_ != nullptr) also_->write(bytes.view);
    to_.write(offset, bytes);
  }
  std::size_t piece_bytes() const override { return to_.piece_bytes(); }

 private:
  PositionalSink& to_;
  ByteSink* also_;
};

}  // namespace

void write_blocks(const CheckpointPlan& plan, PositionalSink& sink,
                  const std::function<void(ByteSink&)>& fill) {
  BlockSink blocks(sink, std::min(block_bytes(plan.tail_begin()), sink.piece_bytes()));
  fill(blocks);
  blocks.finish();
}

void fill_object(const CheckpointPlan& plan, ObjectWrite& object, ByteSink* also,
                 const std::function<void(std::uint64_t bytes)>& on_written) {
  ObjectSink sink(object);
  TeeSink both(sink, also);
  write_blocks(plan, both, [&](ByteSink& blocks) { stream_plan(plan, blocks, on_written); });
  if (sink.bytes() != plan.size()) {
    throw UsageError("a file of " + std::to_string(plan.size()) + " bytes was planned, but " +
                     std::to_string(sink.bytes()) + " were written");
  }
}

void write_object(const CheckpointPlan& plan, ObjectWrite& object, ByteSink* also,
                  const std::function<void(std::uint64_t bytes)>& on_written) {
  fill_object(plan, object, also, on_written);
  object.commit();
}

void write_object(const std::string& text, ObjectWrite& object) {
  object.write(as_bytes(text));
  object.commit();
}

}  // namespace cairn

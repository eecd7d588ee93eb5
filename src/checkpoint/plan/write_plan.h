// Writes a plan into an object while the caller waits: from the tensors' own memory, through a ring
// of blocks (io/bytes/block_sink.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "cairn/storage/object_store.h"

#include "format/checkpoint_plan.h"
#include "io/bytes/positional_sink.h"

namespace cairn {

// Lets executors write into an object.
class ObjectSink final : public PositionalSink {
 public:
  // `object` must outlive this sink. `before_each` is called before each block, and may throw.
  explicit ObjectSink(ObjectWrite& object, std::function<void()> before_each = nullptr)
      : object_(object), before_each_(std::move(before_each)) {}
  void write(std::uint64_t offset, const SharedBytes& bytes) override {
    if (before_each_) before_each_();
    object_.write_at(offset, bytes);
    bytes_ += bytes.view.size();
  }
  std::size_t piece_bytes() const override { return object_.piece_bytes(); }
  std::uint64_t bytes() const { return bytes_; }  // the number of bytes written so far

 private:
  ObjectWrite& object_;
  std::function<void()> before_each_;
  std::uint64_t bytes_ = 0;
};

// Writes a file in blocks; `fill` produces its bytes. The file should be about as large as the
// plan.
void write_blocks(const CheckpointPlan& plan, PositionalSink& sink,
                  const std::function<void(ByteSink&)>& fill);

// Writes a plan as it is into an object that was begun with the plan's size. `also` gets every
// block, too; it may be null. For errors and `on_written` see stream_plan().
void fill_object(const CheckpointPlan& plan, ObjectWrite& object, ByteSink* also = nullptr,
                 const std::function<void(std::uint64_t bytes)>& on_written = nullptr);
// Like fill_object(), and commits the object.
void write_object(const CheckpointPlan& plan, ObjectWrite& object, ByteSink* also = nullptr,
                  const std::function<void(std::uint64_t bytes)>& on_written = nullptr);
// Writes a text into an object and commits it.
void write_object(const std::string& text, ObjectWrite& object);

}  // namespace cairn

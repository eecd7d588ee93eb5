// How far the bytes of a job's tensors are, for SaveJob::on_progress.
#pragma once

#include <cstdint>
#include <functional>

#include "checkpoint/plan/save_job.h"
#include "format/checkpoint_plan.h"

namespace cairn {

// Of all tensors in the file.
inline std::uint64_t part_bytes(const CheckpointPlan& plan) {
  std::uint64_t bytes = 0;
  for (const CheckpointPlan::Part& part : plan.parts()) {
    bytes += part.size;
  }
  return bytes;
}

class WriteProgress {
 public:
  // Of a job that writes `total` bytes of tensors, in however many files. `job` must outlive it.
  WriteProgress(const SaveJob& job, std::uint64_t total) : job_(job), total_(total) {}

  // What stream_plan() is to call in one attempt: null when nobody asks. What a later attempt
  // writes again is told of once.
  std::function<void(std::uint64_t more)> of_attempt() {
    done_ = 0;
    if (!job_.on_progress) return nullptr;
    return [this](std::uint64_t more) { add(more); };
  }

 private:
  void add(std::uint64_t more) {
    done_ += more;
    if (done_ <= told_) return;
    const std::uint64_t news = done_ - told_;
    told_ = done_;
    job_.on_progress(news, total_);
  }

  const SaveJob& job_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;  // in this attempt
  std::uint64_t told_ = 0;
};

}  // namespace cairn

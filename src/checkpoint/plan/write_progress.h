// Counts the tensor bytes that a job has written, for SaveJob::on_progress.
#pragma once

#include <cstdint>
#include <functional>

#include "checkpoint/plan/save_job.h"
#include "format/checkpoint_plan.h"

namespace cairn {

// The bytes of all tensors in the file.
inline std::uint64_t part_bytes(const CheckpointPlan& plan) {
  std::uint64_t bytes = 0;
  for (const CheckpointPlan::Part& part : plan.parts()) {
    bytes += part.size;
  }
  return bytes;
}

class WriteProgress {
 public:
  // `total`: the bytes of tensors that the job writes, in however many files. `job` must outlive
  // this object.
  WriteProgress(const SaveJob& job, std::uint64_t total) : job_(job), total_(total) {}

  // Begins an attempt to write, and returns the function that stream_plan() calls during the
  // attempt. Null if the job has no on_progress. Bytes that a later attempt writes again are
  // reported only once.
  std::function<void(std::uint64_t more)> of_attempt() {
    done_ = 0;
    if (!job_.on_progress) return nullptr;
    return [this](std::uint64_t more) { add(more); };
  }

 private:
  void add(std::uint64_t more) {
    done_ += more;
    if (done_ <= reported_) return;
    const std::uint64_t news = done_ - reported_;
    reported_ = done_;
    job_.on_progress(news, total_);
  }

  const SaveJob& job_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;  // in this attempt
  std::uint64_t reported_ = 0;
};

}  // namespace cairn

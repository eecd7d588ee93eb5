// Reads files on other machines, over the ranks, while a checkpoint is loaded.
//
//  1. Each rank that has files answers on its own thread, until this object is destroyed. The
//     thread reads the requested file of this rank in pieces of a few MiB.
//  2. A rank that wants ranges sends one message with the question, and waits for the answer. The
//     answer has a number that no other thread of this process waits for, so several threads may
//     read at once. The bytes, or the text of an error, follow the answer.
//  3. These messages are point to point, beside the collectives of the group. Only the reading rank
//     and the rank that has the file are involved.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "checkpoint/ranks/joint_store.h"
#include "dist/backend.h"

namespace cairn::dist {

class Group;

class PeerFiles final : public PeerFileReader {
 public:
  // Returns a file of this rank. Its exceptions are sent to the asking rank. Called by the thread
  // of step 1.
  using Open = std::function<std::shared_ptr<const ByteSource>(const FileOfRank& file)>;

  // Construct it on all ranks together, equally often and in the same order.
  explicit PeerFiles(Group& group);
  ~PeerFiles() override;
  PeerFiles(const PeerFiles&) = delete;
  PeerFiles& operator=(const PeerFiles&) = delete;

  // Step 1. Call it once.
  void serve(Open open);
  // Ends step 1. Call it when no rank reads any more, for example after a barrier. A later read
  // throws UsageError.
  void end();
  // Throws DistError if the rank is gone.
  void read(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const override;

 private:
  void answer_all(const Open& open);
  void answer(const Open& open, int to, const at::Tensor& question);
  void ask(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const;

  Group& group_;
  const int question_tag_;  // Differs for each object, so old messages do no harm.
  mutable std::atomic<int> answers_ = 0;
  std::mutex mutex_;
  WorkPtr awaited_;  // The next question.
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace cairn::dist

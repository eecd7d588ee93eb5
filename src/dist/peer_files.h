// Files that lie on other machines, read over the ranks while a checkpoint is loaded.
//
//  1. Each rank that has files answers on a thread of its own, until it is gone. What is read there
//     is this rank's file, in pieces of a few MiB.
//  2. Who wants ranges sends one message that says which, and waits for an answer with a number
//     that nobody else in this process waits for: several threads may read at once. The bytes come
//     behind it, or why there are none.
//  3. These messages are point to point, beside the collectives of the group: no rank takes part in
//     what another one reads but the one that has it.
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

class PeerFiles final : public OthersFiles {
 public:
  // Gives a file of this rank; throws what it has to say. Called by the thread of step 1.
  using Open = std::function<std::shared_ptr<const ByteSource>(const FileOfRank& file)>;

  // On all ranks together, as often and in the same order.
  explicit PeerFiles(Group& group);
  ~PeerFiles() override;
  PeerFiles(const PeerFiles&) = delete;
  PeerFiles& operator=(const PeerFiles&) = delete;

  // Step 1. Once.
  void serve(Open open);
  // Ends step 1, when no rank reads any more: a barrier, or something like it, comes before.
  // Reading is a UsageError from then on.
  void end();
  // DistError when the rank is gone.
  void read(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const override;

 private:
  void answer_all(const Open& open);
  void answer(const Open& open, int to, const at::Tensor& question);
  void ask(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const;

  Group& group_;
  const int question_tag_;  // another one for each: what is left of one before disturbs nobody
  mutable std::atomic<int> answers_ = 0;
  std::mutex mutex_;
  WorkPtr awaited_;  // the next question
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace cairn::dist

// Gradients averaged over the ranks, while backward() still computes others.
//
//  1. Parameters are put into buckets of about 25 MiB in the reverse of their order, which is about
//     that in which backward() finishes them; the first bucket is small, so that sending begins
//     early. The buckets stay as they are from the first batch to the last. c10d's Reducer makes
//     new ones after the first backward(), so that a resumed run would add in another order than
//     one that was never stopped, and end with other bits: hence this class.
//  2. A hook behind each parameter's gradient counts. When a bucket is full and those before it are
//     under way, its gradients are copied into one array, divided by the number of ranks, and
//     summed over them by Gloo's threads, or NCCL's stream. All ranks so send their buckets in one
//     order.
//  3. finish() sends what is left (gradients of earlier microbatches whose parameters the last one
//     did not use), waits, and copies the averages back.
//  4. Each array ends with a number for each of its parameters: whether any rank has a gradient of
//     it. One that none has stays without, so that the optimizer passes over it as in one process;
//     one that only others have begins from zero.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "dist/group.h"

namespace cairn::dist {

struct GradientSyncOptions {
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

// Used on the training thread; the hooks run on those of backward().
class GradientSync {
 public:
  // Of the parameters that have gradients, each once, on one device; the same on all ranks
  // (UsageError).
  GradientSync(Group& group, const std::vector<at::Tensor>& parameters,
               const GradientSyncOptions& options = {});
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // Whether these, in this order, are the parameters that it was made of.
  bool is_of(const std::vector<at::Tensor>& parameters) const;

  // The next backward() is the last before finish(): what is complete is sent. Without it, finish()
  // sends everything.
  void expect();
  // `what` is for messages. DistError; UnsupportedError for sparse gradients.
  void finish(const std::string& what);

 private:
  struct Bucket {
    std::vector<at::Tensor> parameters = {};
    std::vector<char> is_ready = {};
    std::size_t ready = 0;
    std::vector<std::int64_t> offsets = {};  // in `flat`, and the end
    at::Tensor flat = {};
    at::Tensor message = {};  // `flat`, or its copy on the host
    WorkPtr work = {};
    bool is_sent = false;
  };
  // A shared_ptr or, in newer ones of libtorch, an intrusive_ptr.
  using NodePtr = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));
  struct Hook {
    NodePtr node;
    std::uintptr_t key;
  };

  void make_buckets(const std::vector<at::Tensor>& parameters, const GradientSyncOptions& options);
  void check_ranks_agree() const;
  void add_hook(std::size_t bucket, std::size_t index);
  void on_gradient(std::size_t bucket, std::size_t index);
  void send_ready();
  void send(Bucket& bucket);
  void receive(Bucket& bucket);
  void reset();

  Group& group_;
  Channel channel_;
  std::vector<at::Tensor> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<Hook> hooks_;
  std::mutex mutex_;  // of what the hooks change
  bool is_expecting_ = false;
  std::size_t next_ = 0;  // bucket to send
  std::exception_ptr error_;
};

}  // namespace cairn::dist

// Averages gradients over the ranks, while backward() still computes others.
//
//  1. Parameters are put into buckets of about 25 MiB in reverse order, which is about the order in
//     which backward() finishes them. The first bucket is small, so that sending begins early. The
//     buckets stay the same from the first batch to the last. c10d's Reducer makes new ones after
//     the first backward(). A resumed run would then add in another order than an uninterrupted
//     run, and end with other bits. That is why this class exists.
//  2. A hook on each parameter counts the gradients of its bucket. When a bucket is complete and
//     the buckets before it are being sent, its gradients, divided by the number of ranks, are
//     written into one array. From then on they are views of this array, and what backward() wrote
//     is freed. Gloo's threads, or NCCL's stream, sum the array over the ranks. So all ranks send
//     their buckets in one order.
//  3. finish() sends the rest (gradients of earlier microbatches whose parameters the last
//     microbatch did not use), and waits. Only a gradient that is not contiguous, which is no view,
//     is copied back.
//  4. Each array ends with a number for each of its parameters: whether any rank has a gradient for
//     it. If no rank has one, the parameter keeps no gradient, so that the optimizer passes over
//     the parameter as in one process. If only other ranks have a gradient, this rank's gradient
//     begins from zero.
//  5. Arrays are used again for the next batch, after its gradients were dropped. If the program
//     still has a gradient of the previous batch, that bucket gets a new array.
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

// Use it on the training thread. The hooks run on the threads of backward().
class GradientSync {
 public:
  // `parameters` must have gradients, each once, on one device, and be the same on all ranks.
  // Throws UsageError otherwise.
  GradientSync(Group& group, const std::vector<at::Tensor>& parameters,
               const GradientSyncOptions& options = {});
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // Whether this object was made with these parameters, in this order.
  bool has_parameters(const std::vector<at::Tensor>& parameters) const;

  // Announces that the next backward() is the last before finish(), so complete buckets are sent
  // during it. Without this call, finish() sends everything.
  void expect();
  // `what` is for messages. Throws DistError, and UnsupportedError for sparse gradients.
  void finish(const std::string& what);

 private:
  struct Bucket {
    std::vector<at::Tensor> parameters = {};
    std::vector<char> is_ready = {};
    std::size_t ready = 0;
    std::vector<std::int64_t> offsets = {};  // In `flat`, and the end.
    at::Tensor flat = {};
    at::Tensor message = {};  // `flat`, or its copy on the host.
    WorkPtr work = {};
    bool is_sent = false;
  };
  // A shared_ptr or, in newer versions of libtorch, an intrusive_ptr.
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
  static at::Tensor place_of(const Bucket& bucket, std::size_t index);
  static void prepare_array(Bucket& bucket);
  void send(Bucket& bucket);
  void receive(Bucket& bucket);
  void reset();

  Group& group_;
  Channel channel_;
  std::vector<at::Tensor> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<Hook> hooks_;
  std::mutex mutex_;  // Guards what the hooks change.
  bool is_expecting_ = false;
  std::size_t next_ = 0;  // Bucket to send.
  std::exception_ptr error_;
};

}  // namespace cairn::dist

#include "dist/sharding/gradient_sync.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace cairn::dist {
namespace {

at::Device device_of(const std::vector<at::Tensor>& parameters) {
  const at::Device device = parameters.front().device();
  for (const at::Tensor& parameter : parameters) {
    if (parameter.device() == device) continue;
    throw UsageError("the model has parameters on " + device.str() + " and on " +
                     parameter.device().str() +
                     ": in several processes all of them lie on one device");
  }
  return device;
}

}  // namespace

GradientSync::GradientSync(Group& group, const std::vector<at::Tensor>& parameters,
                           const GradientSyncOptions& options)
    : group_(group), parameters_(parameters) {
  make_buckets(parameters, options);
  check_ranks_agree();
  if (!parameters.empty()) channel_ = group.channel(device_of(parameters));
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    channel_.check_adds(buckets_[b].parameters.front().scalar_type());
    for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i)
      add_hook(b, i);
  }
}

GradientSync::~GradientSync() {
  for (const Hook& hook : hooks_)
    hook.node->del_post_hook(hook.key);
}

bool GradientSync::has_parameters(const std::vector<at::Tensor>& parameters) const {
  return std::ranges::equal(parameters_, parameters, [](const auto& one, const auto& other) {
    return one.unsafeGetTensorImpl() == other.unsafeGetTensorImpl();
  });
}

// Step 1.
void GradientSync::make_buckets(const std::vector<at::Tensor>& parameters,
                                const GradientSyncOptions& options) {
  std::int64_t bytes = 0;
  std::int64_t limit = options.first_bucket_bytes;
  for (auto it = parameters.rbegin(); it != parameters.rend(); ++it) {
    const bool fits = !buckets_.empty() && bytes < limit &&
                      buckets_.back().parameters.front().scalar_type() == it->scalar_type();
    if (!fits) {
      if (!buckets_.empty()) limit = options.bucket_bytes;
      buckets_.emplace_back();
      bytes = 0;
    }
    buckets_.back().parameters.push_back(*it);
    bytes += static_cast<std::int64_t>(it->nbytes());
  }
  for (Bucket& bucket : buckets_) {
    std::int64_t size = 0;
    for (const at::Tensor& parameter : bucket.parameters) {
      bucket.offsets.push_back(size);
      size += parameter.numel();
    }
    bucket.offsets.push_back(size);
    bucket.is_ready.assign(bucket.parameters.size(), char{0});
  }
}

void GradientSync::check_ranks_agree() const {
  std::vector<std::int64_t> mine;
  for (const Bucket& bucket : buckets_) {
    for (const at::Tensor& parameter : bucket.parameters) {
      mine.push_back(parameter.numel());
      if (parameter.is_contiguous()) continue;
      mine.insert(mine.end(), parameter.strides().begin(), parameter.strides().end());
    }
    mine.push_back(-static_cast<std::int64_t>(bucket.parameters.front().scalar_type()));
  }
  const Value value = Value(List(mine.begin(), mine.end()));
  const std::vector<Value> all = all_gather_values(value);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw UsageError(fmt::format(
        "the models of rank 0 and rank {} differ: all ranks must train parameters of the same "
        "shapes in the same order",
        rank));
  }
}

void GradientSync::add_hook(std::size_t bucket, std::size_t index) {
  const at::Tensor& parameter = buckets_[bucket].parameters[index];
  auto node = torch::autograd::impl::grad_accumulator(parameter);
  using torch::autograd::variable_list;
  auto hook = std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [this, bucket, index](const variable_list& outputs, const variable_list& /*inputs*/) {
        on_gradient(bucket, index);
        return outputs;
      });
  const std::uintptr_t key = node->add_post_hook(std::move(hook));
  hooks_.push_back({std::move(node), key});
}

void GradientSync::expect() {
  const std::scoped_lock lock(mutex_);
  is_expecting_ = true;
}

// Keeps errors for finish(): autograd's engine would change their class, and c10d's errors do not
// name the rank whose connection failed.
void GradientSync::on_gradient(std::size_t index_of_bucket, std::size_t index) {
  const std::scoped_lock lock(mutex_);
  if (!is_expecting_ || error_) return;
  Bucket& bucket = buckets_[index_of_bucket];
  try {
    if (bucket.is_sent) {
      throw UsageError(
          "backward() computed a parameter's gradient a second time after it was sent to the "
          "other ranks: set ddp_sync_strategy to \"forced_sync\"");
    }
    if (std::exchange(bucket.is_ready[index], char{1}) != 0) return;
    ++bucket.ready;
    send_ready();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void GradientSync::send_ready() {
  while (next_ < buckets_.size() && buckets_[next_].ready == buckets_[next_].parameters.size())
    send(buckets_[next_++]);
}

// The part of the array for a parameter's gradient, with the parameter's order of elements.
at::Tensor GradientSync::place_of(const Bucket& bucket, std::size_t index) {
  const at::Tensor& parameter = bucket.parameters[index];
  if (parameter.is_non_overlapping_and_dense()) {
    return bucket.flat.as_strided(parameter.sizes(), parameter.strides(), bucket.offsets[index]);
  }
  return bucket.flat.narrow(0, bucket.offsets[index], parameter.numel()).view(parameter.sizes());
}

// Step 5.
void GradientSync::prepare_array(Bucket& bucket) {
  if (bucket.flat.defined()) {
    const auto own = std::ranges::count_if(bucket.parameters, [&](const at::Tensor& parameter) {
      return parameter.grad().defined() && parameter.grad().is_alias_of(bucket.flat);
    });
    const auto users = static_cast<std::int64_t>(bucket.flat.storage().use_count());
    if (users == 1 + own) return;
  }
  const auto count = static_cast<std::int64_t>(bucket.parameters.size());
  bucket.flat = at::empty({bucket.offsets.back() + count},
                          bucket.parameters.front().options().requires_grad(false));
}

// Step 2.
void GradientSync::send(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  const std::size_t count = bucket.parameters.size();
  prepare_array(bucket);
  const at::Tensor ranks = at::scalar_tensor(group_.launch().world_size, at::kDouble);
  const at::Tensor has_any = at::empty({static_cast<std::int64_t>(count)}, at::kDouble);
  for (std::size_t i = 0; i < count; ++i) {
    at::Tensor& parameter = bucket.parameters[i];
    const at::Tensor gradient = parameter.grad();
    at::Tensor place = place_of(bucket, i);
    has_any.data_ptr<double>()[i] = gradient.defined() ? 1 : 0;
    if (!gradient.defined()) {
      place.zero_();
      continue;
    }
    if (gradient.is_sparse()) {
      throw UnsupportedError(
          "a parameter has sparse gradients, which several processes cannot train: make its "
          "Embedding with sparse = false");
    }
    at::div_out(place, gradient, ranks);
    const bool has_same_order = gradient.strides() == place.strides() ||
                                (gradient.is_contiguous() && place.is_contiguous());
    if (has_same_order) parameter.mutable_grad() = place;
  }
  bucket.flat.narrow(0, bucket.offsets.back(), has_any.numel()).copy_(has_any);
  bucket.message = channel_.message_of(bucket.flat);
  std::vector<at::Tensor> tensors = {bucket.message};
  bucket.work = channel_.backend->allreduce(tensors, c10d::AllreduceOptions());
  bucket.is_sent = true;
}

// Steps 3 and 4.
void GradientSync::finish(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  is_expecting_ = false;
  group_.run_collective(what, [this] {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    while (next_ < buckets_.size())
      send(buckets_[next_++]);
    for (Bucket& bucket : buckets_)
      group_.wait(bucket.work, channel_);
  });
  for (Bucket& bucket : buckets_)
    receive(bucket);
  reset();
}

void GradientSync::receive(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  channel_.unpack(std::exchange(bucket.message, at::Tensor()), bucket.flat);
  const bool has_all = std::ranges::all_of(
      bucket.parameters, [](const at::Tensor& parameter) { return parameter.grad().defined(); });
  at::Tensor counts;  // Reading them waits for the device.
  if (!has_all) {
    counts =
        bucket.flat
            .narrow(0, bucket.offsets.back(), static_cast<std::int64_t>(bucket.parameters.size()))
            .to(at::kCPU, at::kDouble);
  }
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    at::Tensor& parameter = bucket.parameters[i];
    if (!has_all && counts.data_ptr<double>()[i] == 0) continue;
    const at::Tensor average = place_of(bucket, i);
    if (!parameter.grad().defined()) {
      parameter.mutable_grad() = average;
    } else if (parameter.grad().data_ptr() != average.data_ptr()) {
      parameter.mutable_grad().copy_(average);
    }
  }
}

void GradientSync::reset() {
  next_ = 0;
  for (Bucket& bucket : buckets_) {
    bucket.is_ready.assign(bucket.parameters.size(), char{0});
    bucket.ready = 0;
    bucket.is_sent = false;
    bucket.work.reset();
  }
}

}  // namespace cairn::dist

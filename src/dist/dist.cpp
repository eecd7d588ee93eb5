#include "cairn/dist/dist.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "cairn/format/torch_file.h"

#include "dist/group.h"
#include "io/machine.h"

namespace cairn::dist {
namespace {

struct Initialized {
  bool is = false;
  // Not destroyed when the process ends: a collective that a rank gave up may still be under way.
  Group* group = nullptr;
  std::vector<std::string> machines;  // By rank.
};

Initialized& initialized() {
  static Initialized state;
  return state;
}

std::string machine_of(const Launch& launch) {
  return launch.node_rank ? fmt::format("{}/{}", node_name(), *launch.node_rank) : node_name();
}

Launch launch_from(const InitializeOptions& options) {
  const bool is_explicit = options.rank || options.world_size;
  if (options.rank.has_value() != options.world_size.has_value()) {
    throw UsageError("dist::initialize(): give rank and world_size, or neither");
  }
  Launch launch = is_explicit ? Launch() : launch_of();
  if (is_explicit) {
    launch.rank = *options.rank;
    launch.world_size = *options.world_size;
    launch.source = "what the program says";
    if (launch.rank < 0 || launch.rank >= launch.world_size) {
      throw UsageError(fmt::format("dist::initialize(): rank {} is not in 0 to world_size - 1, {}",
                                   launch.rank, launch.world_size - 1));
    }
    // The meeting place may still come from the environment.
    read_meeting_place(launch);
  }
  if (options.local_rank) launch.local_rank = options.local_rank;
  if (options.local_world_size) launch.local_world_size = options.local_world_size;
  if (options.node_rank) launch.node_rank = options.node_rank;
  if (options.master_addr) launch.master_addr = *options.master_addr;
  if (options.master_port) launch.master_port = options.master_port;
  return launch;
}

void check(const Launch& launch, std::chrono::milliseconds timeout) {
  const std::string who =
      fmt::format("rank {} of {} ({})", launch.rank, launch.world_size, launch.source);
  if (timeout.count() < 1) throw UsageError("dist::initialize(): timeout is not positive");
  if (launch.local_world_size.value_or(1) < 1 || launch.local_rank.value_or(0) < 0) {
    throw UsageError("dist::initialize(): local_world_size is at least 1, and local_rank 0");
  }
  if (launch.local_rank && launch.local_world_size &&
      *launch.local_rank >= *launch.local_world_size) {
    throw UsageError(fmt::format("{}: LOCAL_RANK is {}, and LOCAL_WORLD_SIZE {}", who,
                                 *launch.local_rank, *launch.local_world_size));
  }
  if (launch.world_size == 1) return;
  if (launch.master_addr.empty() || !launch.master_port) {
    throw UsageError(who + " does not know where to meet the others: set " +
                     (launch.master_addr.empty() ? "MASTER_ADDR to the machine of rank 0" : "") +
                     (launch.master_addr.empty() && !launch.master_port ? " and " : "") +
                     (launch.master_port ? "" : "MASTER_PORT to a port that is free there"));
  }
  if (*launch.master_port < 1 || *launch.master_port > 65535) {
    throw UsageError(
        fmt::format("{}: MASTER_PORT is {}, which is no port", who, *launch.master_port));
  }
}

c10d::ReduceOp op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kProduct:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    default:
      return c10d::ReduceOp::MAX;
  }
}

void check_tensor(const at::Tensor& tensor, const char* function) {
  if (tensor.defined() && tensor.layout() == at::kStrided) return;
  throw UsageError(std::string("dist::") + function + ": the tensor must be dense");
}

// The bytes of a contiguous tensor.
at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.reshape({-1}).view(at::kByte); }

void broadcast_bytes(Group& group, const at::Tensor& bytes, std::int64_t root,
                     const std::string& what) {
  const Channel& channel = group.channel(bytes.device());
  std::vector<at::Tensor> messages = {channel.message_of(bytes)};
  group.run_collective(what, [&] {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group.wait(channel.backend->broadcast(messages, options), channel);
  });
  channel.unpack(messages[0], bytes);
}

void reduce(Group& group, const at::Tensor& tensor, ReduceOp op, const std::string& what) {
  const Channel& channel = group.channel(tensor.device());
  channel.check_adds(tensor.scalar_type());
  std::vector<at::Tensor> messages = {channel.message_of(tensor)};
  c10d::AllreduceOptions options;
  options.reduceOp = op_of(op);
  group.run_collective(what,
                       [&] { group.wait(channel.backend->allreduce(messages, options), channel); });
  channel.unpack(messages[0], tensor);
}

std::vector<at::Tensor> gather(Group& group, const at::Tensor& tensor, const std::string& what) {
  const Channel& channel = group.channel(tensor.device());
  std::vector<at::Tensor> inputs = {channel.message_of(tensor)};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (std::int64_t rank = 0; rank < world_size(); ++rank)
    outputs[0].push_back(at::empty_like(inputs[0]));
  group.run_collective(what,
                       [&] { group.wait(channel.backend->allgather(outputs, inputs), channel); });
  std::vector<at::Tensor> gathered;
  for (const at::Tensor& message : outputs[0])
    gathered.push_back(channel.to_device(message));
  return gathered;
}

class TensorSink final : public ByteSink {
 public:
  explicit TensorSink(std::uint64_t size)
      : bytes_(at::empty({static_cast<std::int64_t>(size)}, at::kByte)) {}
  void write(ByteView bytes) override {
    std::memcpy(bytes_.data_ptr<std::uint8_t>() + written_, bytes.data(), bytes.size());
    written_ += bytes.size();
  }
  at::Tensor bytes() const { return bytes_; }

 private:
  at::Tensor bytes_;
  std::size_t written_ = 0;
};

at::Tensor encode(const Value& value) {
  const TorchFilePlan plan(value);
  TensorSink sink(plan.size());
  plan.write(sink);
  return sink.bytes();
}

Value decode(const at::Tensor& bytes, std::int64_t rank) {
  const ByteView view = {reinterpret_cast<const std::byte*>(bytes.data_ptr<std::uint8_t>()),
                         static_cast<std::size_t>(bytes.numel())};
  const SharedBytes shared = {view, std::make_shared<at::Tensor>(bytes)};
  return TorchFile(shared, "what rank " + std::to_string(rank) + " sent").read();
}

constexpr std::int64_t kPackedBytes = std::int64_t{1} << 20;

}  // namespace

Group* group() { return initialized().group; }

Group* required_group() {
  if (group() != nullptr || world_size() == 1) return group();
  throw UsageError(describe() + ": call dist::initialize() first");
}

void initialize(const InitializeOptions& options) {
  if (initialized().is) throw UsageError("dist::initialize() was called before");
  Launch launch = launch_from(options);
  check(launch, options.timeout);
  if (launch.world_size > 1) initialized().group = new Group(launch, options.timeout);
  const std::string machine = machine_of(launch);
  set_launch(std::move(launch));
  for (const Value& of_rank : all_gather_values(machine))
    initialized().machines.push_back(of_rank.as_str());
  initialized().is = true;
}

std::vector<std::string> machines_of_ranks() {
  if (group() == nullptr) return {machine_of(launch_of())};
  return initialized().machines;
}

std::int64_t count_machines() {
  const std::vector<std::string> machines = machines_of_ranks();
  const std::set<std::string> different(machines.begin(), machines.end());
  return static_cast<std::int64_t>(different.size());
}

bool is_initialized() { return initialized().is; }

void shutdown() {
  Group* const group = std::exchange(initialized(), {}).group;
  if (group != nullptr && !group->has_failed()) delete group;
  set_launch(std::nullopt);
}

// In a job of one process, RANK may be any number.
std::int64_t rank() {
  const Launch launch = launch_of();
  return launch.world_size == 1 ? 0 : launch.rank;
}
std::int64_t world_size() { return launch_of().world_size; }
std::int64_t local_rank() { return launch_of().local_rank.value_or(0); }
std::int64_t local_world_size() { return launch_of().local_world_size.value_or(1); }
std::int64_t node_rank() { return launch_of().node_rank.value_or(0); }

std::string describe() {
  const Launch launch = launch_of();
  return fmt::format("rank {} of {} ({})", rank(), launch.world_size,
                     launch.source.empty() ? "no launcher" : launch.source);
}

void barrier(const std::string& what) {
  Group* const all = required_group();
  if (all == nullptr) return;
  reduce(*all, at::zeros({1}, at::kByte), ReduceOp::kSum, what);
}

void all_reduce(at::Tensor& tensor, ReduceOp op) {
  check_tensor(tensor, "all_reduce()");
  Group* const all = required_group();
  if (all == nullptr) return;
  const torch::NoGradGuard no_grad;
  const at::Tensor whole = tensor.detach().contiguous();
  reduce(*all, whole, op, "all_reduce()");
  if (!tensor.is_contiguous()) tensor.detach().copy_(whole);
}

void broadcast(at::Tensor& tensor, std::int64_t root) {
  check_tensor(tensor, "broadcast()");
  if (root < 0 || root >= world_size()) {
    throw UsageError(fmt::format("dist::broadcast(): there is no rank {}, only {} to {}", root, 0,
                                 world_size() - 1));
  }
  Group* const all = required_group();
  if (all == nullptr || tensor.numel() == 0) return;
  const torch::NoGradGuard no_grad;
  const at::Tensor whole = tensor.detach().contiguous();
  broadcast_bytes(*all, bytes_of(whole), root, "broadcast()");
  if (!tensor.is_contiguous()) tensor.detach().copy_(whole);
}

std::vector<at::Tensor> all_gather(const at::Tensor& tensor) {
  check_tensor(tensor, "all_gather()");
  Group* const all = required_group();
  if (all == nullptr) return {tensor};
  const torch::NoGradGuard no_grad;
  return gather(*all, tensor.detach(), "all_gather()");
}

Value broadcast_value(const Value& value, std::int64_t root) {
  Group* const all = required_group();
  if (all == nullptr) return value;
  const bool is_root = rank() == root;
  at::Tensor bytes = is_root ? encode(value) : at::Tensor();
  at::Tensor size = at::full({1}, is_root ? bytes.numel() : 0, at::kLong);
  broadcast(size, root);
  if (!is_root) bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  broadcast_bytes(*all, bytes, root, "broadcast_value()");
  return is_root ? value : decode(bytes, root);
}

std::vector<Value> all_gather_values(const Value& value) {
  Group* const all = required_group();
  if (all == nullptr) return {value};
  const at::Tensor bytes = encode(value);
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& size :
       gather(*all, at::full({1}, bytes.numel(), at::kLong), "all_gather_values()")) {
    sizes.push_back(size.item<std::int64_t>());
  }
  at::Tensor padded = at::zeros({*std::max_element(sizes.begin(), sizes.end())}, at::kByte);
  padded.narrow(0, 0, bytes.numel()).copy_(bytes);
  const std::vector<at::Tensor> gathered = gather(*all, padded, "all_gather_values()");
  std::vector<Value> values;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    values.push_back(decode(gathered[r].narrow(0, 0, sizes[r]), static_cast<std::int64_t>(r)));
  }
  return values;
}

void broadcast_tensors(const std::vector<at::Tensor>& tensors, const std::string& what) {
  Group* const all = required_group();
  if (all == nullptr) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> small;
  std::int64_t small_bytes = 0;
  const auto send_small = [&] {
    if (small.empty()) return;
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tensor : small)
      parts.push_back(bytes_of(tensor.contiguous()));
    const at::Tensor packed = at::cat(parts);
    broadcast_bytes(*all, packed, 0, what);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < small.size(); ++i) {
      const std::int64_t size = parts[i].numel();
      // Made as a copy, since memory that is viewed as another type must be aligned for that type.
      const at::Tensor bytes = packed.narrow(0, at, size).clone();
      small[i].copy_(bytes.view(small[i].scalar_type()).view(small[i].sizes()));
      at += size;
    }
    small.clear();
    small_bytes = 0;
  };
  for (const at::Tensor& given : tensors) {
    const at::Tensor tensor = given.detach();
    check_tensor(tensor, "broadcast_tensors()");
    if (tensor.numel() == 0) continue;
    const auto size = static_cast<std::int64_t>(tensor.nbytes());
    if (!small.empty() && small.front().device() != tensor.device()) send_small();
    if (size >= kPackedBytes && tensor.is_contiguous()) {
      broadcast_bytes(*all, bytes_of(tensor), 0, what);
      continue;
    }
    small.push_back(tensor);
    small_bytes += size;
    if (small_bytes >= kPackedBytes) send_small();
  }
  send_small();
}

std::vector<double> sum(std::vector<double> numbers, const std::string& what) {
  Group* const all = required_group();
  if (all == nullptr) return numbers;
  const torch::NoGradGuard no_grad;
  const at::Tensor sums = at::tensor(numbers, at::kDouble);
  reduce(*all, sums, ReduceOp::kSum, what);
  const double* values = sums.data_ptr<double>();
  return {values, values + numbers.size()};
}

}  // namespace cairn::dist

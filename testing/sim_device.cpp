#include "testing/sim_device.h"

#include <ATen/native/CPUFallback.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::testing {
namespace {

constexpr c10::DeviceType kSimDevice = c10::DeviceType::PrivateUse1;
constexpr c10::StreamId kSideStreams = 8;

struct SimEvent {
  c10::StreamId stream;
  std::uint64_t count;  // How many items were enqueued on `stream` before.
};

// All streams of both devices. Stream 0 is the default stream.
class SimStreams {
 public:
  static SimStreams& all() {
    static SimStreams streams;
    return streams;
  }

  void enqueue(c10::StreamId id, std::function<void()> work) { add(id, {std::move(work), {}}); }
  void block(c10::StreamId id, SimEvent event) { add(id, {nullptr, event}); }
  std::uint64_t enqueued(c10::StreamId id) {
    const std::lock_guard lock(mutex_);
    return streams_[id].enqueued;
  }
  bool is_done(c10::StreamId id, std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    return streams_[id].done >= count;
  }
  void run_until(c10::StreamId id, std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    while (streams_[id].done < count) {
      run_next(streams_[id]);
    }
  }
  void wait(c10::StreamId id) {
    const std::lock_guard lock(mutex_);
    ++waits_;
    finish(id);
  }
  void finish(c10::StreamId id) {
    const std::lock_guard lock(mutex_);
    run_until(id, streams_[id].enqueued);
  }
  std::uint64_t waits() {
    const std::lock_guard lock(mutex_);
    return waits_;
  }
  void hurry(bool hurry) {
    const std::lock_guard lock(mutex_);
    hurry_ = hurry;
  }
  void fail_copy(std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    copies_left_ = n;
  }
  void begin_copy() {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(copies_left_ == 0 || --copies_left_ != 0, "simulated device: a copy failed");
  }

 private:
  struct Work {  // Exactly one of the two is set.
    std::function<void()> work;
    std::optional<SimEvent> waits_for;
  };
  struct Stream {
    std::deque<Work> queue;
    std::uint64_t enqueued = 0;
    std::uint64_t done = 0;
  };

  void add(c10::StreamId id, Work work) {
    const std::lock_guard lock(mutex_);
    Stream& stream = streams_[id];
    stream.queue.push_back(std::move(work));
    ++stream.enqueued;
    while (hurry_ && id != 0 && !stream.queue.empty()) {
      const auto& event = stream.queue.front().waits_for;
      if (event && !is_done(event->stream, event->count)) break;
      run_next(stream);
    }
  }
  void run_next(Stream& stream) {
    const Work next = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.done;
    next.waits_for ? run_until(next.waits_for->stream, next.waits_for->count) : next.work();
  }

  std::recursive_mutex mutex_;
  std::map<c10::StreamId, Stream> streams_;
  bool hurry_ = false;
  std::uint64_t waits_ = 0;
  std::uint64_t copies_left_ = 0;  // 0: no copy fails.
};

thread_local c10::DeviceIndex current_device = 0;
thread_local c10::StreamId current_stream = 0;
// The device itself is at work: what it copies to compute is not a wait of this thread.
thread_local bool is_computing = false;
class Computing {
 public:
  Computing() { is_computing = true; }
  ~Computing() { is_computing = false; }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;
};

class SimDeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kSimDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kSimDevice, std::exchange(current_device, device.index())};
  }
  c10::Device getDevice() const override { return {kSimDevice, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    TORCH_CHECK(device.index() == 0, "this device has one stream");
    static std::atomic<c10::StreamId> next = 0;
    return c10::Stream(c10::Stream::UNSAFE, device, 1 + next++ % kSideStreams);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, stream.device(),
                       std::exchange(current_stream, stream.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    destroyEvent(*event, 0);
    *event = new SimEvent{stream.id(), SimStreams::all().enqueued(stream.id())};
  }
  void block(void* event, const c10::Stream& stream) const override {
    SimStreams::all().block(stream.id(), *static_cast<SimEvent*>(event));
  }
  bool queryEvent(void* event) const override {
    const auto* const seen = static_cast<SimEvent*>(event);
    return seen == nullptr || SimStreams::all().is_done(seen->stream, seen->count);
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<SimEvent*>(event);
  }
  bool queryStream(const c10::Stream& stream) const override {
    return SimStreams::all().is_done(stream.id(), SimStreams::all().enqueued(stream.id()));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    SimStreams::all().wait(stream.id());
  }
};

// --- The functions that libtorch calls on its tensors --------------------------------------------

// c10::optional in older libtorches, std::optional in newer ones.
using MaybeType = decltype(c10::optTypeMetaToScalarType(at::TensorOptions().dtype_opt()));
using MaybeLayout = decltype(at::TensorOptions().layout_opt());
using MaybeDevice = decltype(at::TensorOptions().device_opt());
using MaybeBool = decltype(at::TensorOptions().pinned_memory_opt());
using MaybeFormat = decltype(at::TensorOptions().memory_format_opt());

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
std::atomic<std::uint64_t> most_bytes = kNoLimit;
std::atomic<std::uint64_t> failed_allocations = 0;

void check_memory(std::size_t bytes) {
  if (bytes <= most_bytes) return;
  ++failed_allocations;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "simulated device: no memory for ", bytes, " bytes");
}

at::Tensor sim_empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, MaybeType dtype,
                             MaybeLayout /*layout*/, MaybeDevice device, MaybeBool /*pin*/) {
  const at::ScalarType type = dtype.value_or(at::kFloat);
  const std::size_t bytes =
      at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  check_memory(bytes);
  at::Allocator* const allocator = c10::GetCPUAllocator();
  at::DataPtr memory = allocator->allocate(bytes);
  memory.unsafe_set_device(device && device->has_index() ? *device
                                                         : c10::Device(kSimDevice, current_device));
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      at::Storage(at::Storage::use_byte_size_t(), bytes, std::move(memory), allocator,
                  /*resizable=*/true),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(type));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

at::Tensor sim_empty(at::IntArrayRef sizes, MaybeType dtype, MaybeLayout layout, MaybeDevice device,
                     MaybeBool pin, MaybeFormat /*format*/) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
  }
  return sim_empty_strided(sizes, strides, dtype, layout, device, pin);
}

// A tensor of the CPU with the same memory. The new tensor keeps the memory alive.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor.detach();
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [tensor](void*) {},
      at::TensorOptions(tensor.scalar_type()));
}

at::Tensor sim_copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const auto copy = [from = on_host(from), to = on_host(to)] {
    SimStreams::all().begin_copy();
    const torch::NoGradGuard no_grad;
    to.copy_(from);
  };
  if (to.numel() == 0) return to;
  const bool is_inside = from.device() == to.device();
  SimStreams::all().enqueue(current_stream, copy);
  if (is_computing) {
    SimStreams::all().finish(current_stream);
  } else if (!non_blocking && !is_inside) {
    SimStreams::all().wait(current_stream);
  }
  return to;
}

at::Tensor& sim_fill(at::Tensor& tensor, const at::Scalar& value) {
  run_on_sim_device([memory = on_host(tensor), value] {
    const torch::NoGradGuard no_grad;
    memory.fill_(value);
  });
  return tensor;
}

std::atomic<std::uint64_t> gathered = 0;

at::Tensor& sim_cat(const at::ITensorListRef& tensors, std::int64_t dim, at::Tensor& out) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(on_host(tensor));
  }
  SimStreams::all().enqueue(current_stream, [parts, dim, to = on_host(out)] {
    SimStreams::all().begin_copy();
    const torch::NoGradGuard no_grad;
    to.copy_(at::cat(parts, dim));
  });
  ++gathered;
  return out;
}

void give_memory_of(const at::Tensor& other, const at::Tensor& to) {
  c10::TensorImpl* const impl = to.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(other.storage());
  impl->set_sizes_and_strides(other.sizes(), other.strides());
}

// Copies into a tensor made for a result. Resizes that tensor if its maker did not know the size.
at::Tensor sim_copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) give_memory_of(at::empty(from.sizes(), to.options()), to);
  return sim_copy_from(from, to, /*non_blocking=*/false);
}

void compute_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const bool gives_number = op.operator_name().name == "aten::_local_scalar_dense";  // item()
  if (gives_number) {
    SimStreams::all().wait(current_stream);
  } else {
    SimStreams::all().finish(current_stream);
  }
  const Computing computing;
  at::native::cpu_fallback(op, stack);
}

void make_known() {
  static const c10::impl::DeviceGuardImplRegistrar guard(kSimDevice, new SimDeviceGuard());
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                __FILE__, __LINE__);
  static const bool is_done = [] {
    library.impl("empty.memory_format", sim_empty);
    library.impl("empty_strided", sim_empty_strided);
    library.impl("_copy_from", sim_copy_from);
    library.impl("fill_.Scalar", sim_fill);
    library.impl("as_strided", at::native::as_strided_tensorimpl);
    library.impl("view",
                 static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(at::native::view));
    return true;
  }();
  static_cast<void>(is_done);
}

// --- Operators on lists of tensors ---------------------------------------------------------------

using Tensors = std::vector<at::Tensor>;

Tensors all_on_host(const Tensors& tensors) {
  Tensors host;
  for (const at::Tensor& tensor : tensors)
    host.push_back(on_host(tensor));
  return host;
}

// Calls the operator on the CPU, with tensors that share the memory of the given ones.
void list_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  SimStreams::all().finish(current_stream);
  for (auto given = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
       given != stack->end(); ++given) {
    if (given->isTensor()) {
      *given = on_host(given->toTensor());
    } else if (given->isTensorList()) {
      *given = all_on_host(given->toTensorVector());
    }
  }
  op.callBoxed(stack);
  if (op.schema().returns().empty()) return;
  Tensors results = stack->back().toTensorVector();
  const Computing computing;
  for (at::Tensor& result : results)
    result = result.to(sim_device());
  stack->back() = results;
}

// Older libtorches have the next two on CUDA devices only.

void fused_adam_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  SimStreams::all().finish(current_stream);
  const std::vector<c10::IValue> given = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto list = [&](std::size_t i) { return all_on_host(given[i].toTensorVector()); };
  const auto number = [&](std::size_t i) { return given[i].toDouble(); };
  const Tensors w = list(0);
  const Tensors g = list(1);
  const Tensors m = list(2);
  const Tensors v = list(3);
  const Tensors largest = list(4);
  const Tensors count = list(5);
  const double beta1 = number(7);
  const double beta2 = number(8);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double k = count[i].item<double>();
    const at::Tensor gradient = g[i] + w[i] * number(9);
    m[i].copy_(beta1 * m[i] + (1 - beta1) * gradient);
    v[i].copy_(beta2 * v[i] + (1 - beta2) * gradient * gradient);
    if (given[11].toBool()) largest[i].copy_(at::maximum(largest[i], v[i]));
    const at::Tensor& second = given[11].toBool() ? largest[i] : v[i];
    const at::Tensor norm = (second / (1 - std::pow(beta2, k))).sqrt() + number(10);
    w[i].sub_(m[i] / norm * (number(6) / (1 - std::pow(beta1, k))));
  }
}

void unscale_on_host(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  SimStreams::all().finish(current_stream);
  const std::vector<c10::IValue> given = torch::jit::pop(*stack, 3);
  for (const at::Tensor& gradient : all_on_host(given[0].toTensorVector())) {
    if (!at::isfinite(gradient).all().item<bool>()) on_host(given[1].toTensor()).fill_(1);
    gradient.mul_(on_host(given[2].toTensor()));
  }
}

}  // namespace

c10::Device sim_device() {
  make_known();
  return {kSimDevice, 0};
}

c10::Device sim_device_without_side_streams() {
  make_known();
  return {kSimDevice, 1};
}

void let_sim_device_compute() {
  make_known();
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                __FILE__, __LINE__);
  static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__,
                            __LINE__);
  static const bool is_done = [] {
    library.impl("_copy_from_and_resize", sim_copy_from_and_resize);
    library.impl("_reshape_alias", at::native::_reshape_alias);
    all.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
    return true;
  }();
  static_cast<void>(is_done);
}

struct SimGathering::Kernel {
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                         __LINE__};
};

SimGathering::SimGathering() : kernel_(std::make_unique<Kernel>()) {
  make_known();
  gathered = 0;
  kernel_->library.impl("cat.out", sim_cat);
}
SimGathering::~SimGathering() = default;

std::uint64_t SimGathering::count() const { return gathered; }

struct SimLists::Kernels {
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                         __LINE__};
};

SimLists::SimLists(bool fused) : kernels_(std::make_unique<Kernels>()) {
  using torch::CppFunction;
  torch::Library& library = kernels_->library;
  for (const char* name :
       {"_foreach_add.List", "_foreach_add_.List", "_foreach_add_.Scalar",
        "_foreach_addcdiv_.Scalar", "_foreach_addcdiv_.ScalarList", "_foreach_addcmul.Scalar",
        "_foreach_addcmul_.Scalar", "_foreach_clamp_max_.Scalar", "_foreach_clamp_min_.Scalar",
        "_foreach_div.ScalarList", "_foreach_div_.ScalarList", "_foreach_maximum_.List",
        "_foreach_mul.ScalarList", "_foreach_mul_.List", "_foreach_mul_.Scalar",
        "_foreach_mul_.Tensor", "_foreach_norm.Scalar", "_foreach_sqrt"}) {
    library.impl(name, CppFunction::makeFromBoxedFunction<&list_on_host>());
  }
  library.impl("_amp_foreach_non_finite_check_and_unscale_",
               CppFunction::makeFromBoxedFunction<&unscale_on_host>());
  if (!fused) return;
  library.impl("_fused_adam_", CppFunction::makeFromBoxedFunction<&fused_adam_on_host>());
}
SimLists::~SimLists() = default;

void move_to_sim_device(const at::Tensor& tensor) {
  give_memory_of(tensor.detach().to(sim_device()), tensor);
  tensor.unsafeGetTensorImpl()->_change_backend_component_keys(sim_device());
}

void run_on_sim_device(std::function<void()> work) {
  SimStreams::all().enqueue(current_stream, std::move(work));
}

void fail_sim_copy(std::uint64_t n) { SimStreams::all().fail_copy(n); }

SimMemoryLimit::SimMemoryLimit(std::uint64_t bytes) {
  failed_allocations = 0;
  most_bytes = bytes;
}
SimMemoryLimit::~SimMemoryLimit() { most_bytes = kNoLimit; }

std::uint64_t SimMemoryLimit::failures() const { return failed_allocations; }

void hurry_sim_side_streams(bool hurry) { SimStreams::all().hurry(hurry); }

std::uint64_t sim_device_waits() { return SimStreams::all().waits(); }

}  // namespace cairn::testing

// Sharded training state: parameters, gradients and optimizer state spread over the ranks
// (PyTorch's FullyShardedDataParallel, for torch::nn modules in C++).
//
//   #include <cairn/dist/sharding.h>  // cairn.h has FSDPConfig only
//
//   struct NetImpl : torch::nn::Module {
//     cairn::Sharded<torch::nn::Linear> first{784, 4096};  // a unit: whole only while it computes
//     cairn::Sharded<Block> second;                        // any holder of a class of your own
//     torch::nn::Linear last{4096, 10};                    // of no unit: whole during a whole pass
//     ...
//   };
//   TrainerOptions: .parallelism_config = cairn::ParallelismConfig{.fsdp = cairn::FSDPConfig{}},
//
// Use `Sharded<Holder>` as you use Holder: register it, call it, put it into a Sequential. Names in
// state dicts do not change. Until the module is sharded it does nothing. Each parameter is cut
// along its first dimension: rank r of n has the r-th part of ceil(rows / n) rows. The last parts
// may be smaller or empty. Between passes a parameter *is* that part: code that steps or counts it
// sees only this rank's rows.
//
// Without a Trainer, in every process, on one thread:
//
//   auto sharded = cairn::fully_shard(net.ptr());
//   torch::optim::AdamW optimizer(cairn::parameters(*net), 1e-3);  // after fully_shard()
//   sharded->begin();
//   at::Tensor loss = loss_of(net->forward(input));
//   sharded->backward(loss);  // the gradients are averages over all ranks, each rank has its rows
//   sharded->end();
//   optimizer.step();
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/dist/activation_checkpoint.h"
#include "cairn/dist/fsdp_config.h"
#include "cairn/export.h"
#include "cairn/tensor.h"

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace CAIRN_PUBLIC cairn {

// This rank's rows of a parameter.
struct ShardedRows {
  std::string name = {};  // the parameter's first name in the module
  Dims global_shape = {};
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t per_rank = 0;  // rows of every rank except the last ones
};

// A module whose parameters are cut: this rank has its part of each parameter. All ranks of the job
// make it from equal modules, and call the same member functions in the same order, each on one
// thread. Throws dist::DistError if another rank does not come. After an error in forward or
// backward, end() makes it usable again if the other ranks had the same error.
class ShardedModule {
 public:
  // Made by fully_shard(). When it is destroyed, the module keeps this rank's part and can no
  // longer compute.
  ~ShardedModule();
  ShardedModule(const ShardedModule&) = delete;
  ShardedModule& operator=(const ShardedModule&) = delete;

  // Call these around every use of the module, in training and in evaluation. Between them its
  // forward() works, and parameters outside of units are whole.
  void begin();
  void end();
  // Runs loss.backward(), and averages the gradients of all ranks. Call it once between begin() and
  // end(). If `contributes` is false, this rank's gradients count as 0. Gradients add up over
  // several passes, as usual.
  void backward(const at::Tensor& loss, bool contributes = true);

  // For a rank that has less to do than others: repeats the communication of its last pass, without
  // computing anything. If `with_backward` is true, repeats that of the whole pass, otherwise only
  // that of its forward(). Call it after end(). Throws UsageError before the first pass.
  void replay_communication(bool with_backward);
  [[deprecated("use replay_communication()")]] void repeat_for_others(bool with_backward) {
    replay_communication(with_backward);
  }
  // Makes forward_prefetch follow the order of units in the last pass. Call it before a batch.
  void record_forward_order();
  [[deprecated("use record_forward_order()")]] void note_order() { record_forward_order(); }

  // This rank's rows of `parameter`, which is compared by identity. nullopt: this module does not
  // shard it.
  std::optional<ShardedRows> find(const at::Tensor& parameter) const;
  // This rank's rows, whether or not the parameter is whole now. Shares the parameter's memory.
  at::Tensor local_rows(const at::Tensor& parameter) const;
  [[deprecated("use local_rows()")]] at::Tensor own_rows(const at::Tensor& parameter) const {
    return local_rows(parameter);
  }
  // Number of ranks that share one copy of the state, this rank's index among them, and the number
  // of copies.
  std::int64_t shard_count() const;
  std::int64_t shard_index() const;
  std::int64_t replicas() const;
  // The sum of `own` over the ranks that share one copy. `what` is for error messages.
  double sum_over_shards(double own, const std::string& what) const;

  // Memory of this rank now, in bytes: its rows of the parameters, whole units, gradients.
  struct Bytes {
    std::int64_t parameters = 0;
    std::int64_t whole = 0;
    std::int64_t gradients = 0;
  };
  Bytes bytes() const;
  // The largest size of whole units (Bytes::whole) at one time so far.
  std::int64_t peak_whole_bytes() const;
  // A line for each unit: its name, its parameters and this rank's elements.
  std::string describe() const;

  struct Impl;  // cairn's own access to it: internal

 private:
  explicit ShardedModule(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Cuts the module's parameters: each rank keeps its rows of rank 0's weights. Call
// dist::initialize() first. Make optimizers afterwards; an optimizer that exists already must have
// no state yet. Throws UsageError or UnsupportedError for values of `config`, and for parameters
// without a dimension.
std::shared_ptr<ShardedModule> fully_shard(const std::shared_ptr<torch::nn::Module>& module,
                                           const FSDPConfig& config = {});

// Throws UsageError or UnsupportedError if fully_shard() throws it for any module with this
// `config`.
void check_fsdp_config(const FSDPConfig& config);

// The part of a Sharded<Holder> that cairn needs.
class ShardedUnit {
 public:
  ShardedUnit() = default;
  virtual ~ShardedUnit() = default;
  ShardedUnit(const ShardedUnit&) {}  // a copy is sharded by itself
  ShardedUnit& operator=(const ShardedUnit&) { return *this; }

  // The unit's index in the module that fully_shard() cut; internal.
  struct Place;

  // One forward() of a unit. The unit is whole as long as the Call lives.
  class Call {
   public:
    explicit Call(ShardedUnit& unit);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    at::Tensor input(const at::Tensor& tensor);
    // Also makes the unit whole again when backward() goes through the output.
    at::Tensor output(const at::Tensor& tensor);

    struct Impl;
    const std::shared_ptr<Impl>& impl() const { return impl_; }

   private:
    std::shared_ptr<Impl> impl_;
  };

  // Lives while the unit's forward() computes, also when backward() computes it again. Units that
  // are called meanwhile are inner ones.
  class Inside {
   public:
    explicit Inside(std::shared_ptr<Call::Impl> call);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    std::shared_ptr<Call::Impl> call_;
  };

 protected:
  bool is_sharded() const { return place_ != nullptr; }
  // FSDPConfig::activation_checkpointing, also where nothing is sharded.
  bool recomputes() const { return recomputes_; }

  // compute(args...), in a call of the unit if the module is sharded, and with activation
  // checkpointing if it recomputes(). `kCanRecompute`: whether copies of the arguments do.
  template <bool kCanRecompute, class Compute, class... Args>
  auto run(Compute compute, Args&&... args);

 private:
  std::shared_ptr<const Place> place_;
  bool recomputes_ = false;
};

// How Sharded<> finds tensors in inputs and outputs. Other values pass unchanged.
namespace sharded_detail {

template <class T>
T map_output(ShardedUnit::Call& call, T output) {
  static_assert(detail::IsOfTensors<T>::value,
                "forward() of a Sharded<> gives a Tensor, a vector of them, or a tuple of such");
  detail::for_each_tensor(output, [&](at::Tensor& tensor) { tensor = call.output(tensor); });
  return output;
}

template <class T>
decltype(auto) map_input(ShardedUnit::Call& call, T&& argument) {
  if constexpr (std::is_same_v<std::remove_cvref_t<T>, at::Tensor>) {
    return call.input(argument);
  } else {
    return std::forward<T>(argument);
  }
}

template <class Impl, class = void>
struct Forward {  // overloaded, or a template, such as Sequential's
  static constexpr bool kIsPlain = false;
};
template <class R, class... Args>
struct Plain {
  static constexpr bool kIsPlain = true;
};
template <class Method>
struct PlainOf;
template <class C, class R, class... Args>
struct PlainOf<R (C::*)(Args...)> : Plain<R, Args...> {
  using Signature = R(Args...);
};
template <class C, class R, class... Args>
struct PlainOf<R (C::*)(Args...) const> : Plain<R, Args...> {
  using Signature = R(Args...);
};
template <class Impl>
struct Forward<Impl, std::void_t<decltype(&Impl::forward)>> : PlainOf<decltype(&Impl::forward)> {};

struct AnyArguments {};

template <class Impl>
auto signature_of() {
  if constexpr (Forward<Impl>::kIsPlain) {
    return std::type_identity<typename Forward<Impl>::Signature>();
  } else {
    return std::type_identity<AnyArguments>();
  }
}

// Whether a forward() with such parameters may get copies of its arguments.
template <class T>
inline constexpr bool kTakesCopy = std::is_copy_constructible_v<std::decay_t<T>> &&
                                   (!std::is_lvalue_reference_v<T> ||
                                    std::is_const_v<std::remove_reference_t<T>> ||
                                    std::is_same_v<std::decay_t<T>, at::Tensor>);

[[noreturn]] void refuse_to_recompute();

}  // namespace sharded_detail

template <bool kCanRecompute, class Compute, class... Args>
auto ShardedUnit::run(Compute compute, Args&&... args) {
  const auto checkpointed = [this](auto function, auto&&... given) {
    if (!recomputes_) return function(std::forward<decltype(given)>(given)...);
    if constexpr (kCanRecompute) {
      return checkpoint_activations(std::move(function), std::forward<decltype(given)>(given)...);
    } else {
      sharded_detail::refuse_to_recompute();
    }
  };
  if (!is_sharded()) return checkpointed(std::move(compute), std::forward<Args>(args)...);
  Call call(*this);
  const auto inside = [compute = std::move(compute), state = call.impl()](auto&&... given) mutable {
    const Inside scope(state);
    return compute(std::forward<decltype(given)>(given)...);
  };
  return sharded_detail::map_output(
      call, checkpointed(inside, sharded_detail::map_input(call, std::forward<Args>(args))...));
}

// `Impl` as a unit. forward() has Impl's parameters, without their default arguments.
template <class Impl,
          class Signature = typename decltype(sharded_detail::signature_of<Impl>())::type>
class ShardedImpl;

template <class Impl, class R, class... Args>
class ShardedImpl<Impl, R(Args...)> final : public Impl, public ShardedUnit {
 public:
  using Impl::Impl;
  R forward(Args... args) {
    if (!is_sharded() && !recomputes()) return Impl::forward(std::forward<Args>(args)...);
    return run<(sharded_detail::kTakesCopy<Args> && ...)>(
        [this, alive = this->weak_from_this().lock()](Args... given) -> R {
          return Impl::forward(std::forward<Args>(given)...);
        },
        std::forward<Args>(args)...);
  }
};

template <class Impl>
class ShardedImpl<Impl, sharded_detail::AnyArguments> final : public Impl, public ShardedUnit {
 public:
  using Impl::Impl;
  template <class... Args>
  auto forward(Args&&... args) {
    if (!is_sharded() && !recomputes()) return Impl::forward(std::forward<Args>(args)...);
    return run<(std::is_copy_constructible_v<std::decay_t<Args>> && ...)>(
        [this, alive = this->weak_from_this().lock()](auto&&... given) {
          return Impl::forward(std::forward<decltype(given)>(given)...);
        },
        std::forward<Args>(args)...);
  }
};

// Holder is torch::nn::Linear, or a holder made with TORCH_MODULE.
template <class Holder>
using Sharded = torch::nn::ModuleHolder<ShardedImpl<typename Holder::ContainedType>>;

}  // namespace cairn

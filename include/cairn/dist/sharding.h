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
// `Sharded<Holder>` is used as Holder is: registered, called, put into a Sequential; names in state
// dicts stay. Until the module is sharded it does nothing. Each parameter is cut along its first
// dimension: rank r of n has the r-th part of ceil(rows / n) rows; the last ones may be smaller,
// or empty. Between passes a parameter *is* that part: what steps or counts it sees no more.
//
// Without a Trainer, in every process, on one thread:
//
//   auto sharded = cairn::fully_shard(net.ptr());
//   torch::optim::AdamW optimizer(cairn::parameters(*net), 1e-3);  // behind it
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

#include "cairn/dist/fsdp_config.h"
#include "cairn/tensor.h"

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace cairn {

// Which rows of a parameter are this rank's.
struct ShardedRows {
  std::string name = {};  // the first one in the module
  Dims global_shape = {};
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t per_rank = 0;  // of all but the last
};

// A module of which this rank has its part. All ranks of the job make it of like modules, and call
// the same of its functions in the same order; each on one thread. Errors: dist::DistError when
// another rank does not come; after one of forward or backward, end() makes it fit for use again,
// if the other ranks had the same.
class ShardedModule {
 public:
  // fully_shard() makes it. When it goes, the module keeps this rank's part and can no longer
  // compute.
  ~ShardedModule();
  ShardedModule(const ShardedModule&) = delete;
  ShardedModule& operator=(const ShardedModule&) = delete;

  // Around every use of the module, in training, evaluation or for its own sake: between the two
  // its forward() works, and parameters of no unit are whole.
  void begin();
  void end();
  // loss.backward(), once between the two, and the gradients of all ranks averaged. Not
  // `contributes`: this rank's count as 0. Gradients add up over several passes, as ever.
  void backward(const at::Tensor& loss, bool contributes = true);

  // For a rank that has less to do than others: what its last pass did is done once more as far as
  // others need it, without computing anything; its forward() alone, or all. Behind end().
  // UsageError before any pass.
  void repeat_for_others(bool with_backward);
  // What forward_prefetch goes by from now on. Before a batch.
  void note_order();

  // By the parameter's identity; nullopt: it is none of these.
  std::optional<ShardedRows> find(const at::Tensor& parameter) const;
  // This rank's rows, whether or not the parameter is whole now. Shares its memory.
  at::Tensor own_rows(const at::Tensor& parameter) const;
  // How many ranks share one whole, this one's place among them, and how often the whole is there.
  std::int64_t shard_count() const;
  std::int64_t shard_index() const;
  std::int64_t replicas() const;
  // The sum over the ranks that share a whole, of what each knows of its own rows.
  double sum_over_shards(double own, const std::string& what) const;

  // Of this rank now, in bytes: parameters as they are kept, what is whole now, gradients.
  struct Bytes {
    std::int64_t parameters = 0;
    std::int64_t whole = 0;
    std::int64_t gradients = 0;
  };
  Bytes bytes() const;
  // The most that was whole at once since it was made.
  std::int64_t peak_whole_bytes() const;
  // A line for each unit: its name, parameters, rows of this rank.
  std::string describe() const;

  struct Impl;  // what cairn itself does with it: internal

 private:
  explicit ShardedModule(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Cuts the module's parameters, of which each rank keeps its rows, and begins with rank 0's. Meet
// the others first (dist::initialize()). Optimizers are made afterwards, or have no state yet.
// UsageError, UnsupportedError for what `config` says, and for parameters without a dimension.
std::shared_ptr<ShardedModule> fully_shard(const std::shared_ptr<torch::nn::Module>& module,
                                           const FSDPConfig& config = {});

// UsageError or UnsupportedError as fully_shard() throws them, of what can be known before.
void check_fsdp_config(const FSDPConfig& config);

// What a Sharded<Holder> is beside what it holds.
class ShardedUnit {
 public:
  ShardedUnit() = default;
  virtual ~ShardedUnit() = default;
  ShardedUnit(const ShardedUnit&) {}  // a copy is sharded by itself
  ShardedUnit& operator=(const ShardedUnit&) { return *this; }

  // Which unit of what fully_shard() cut: its own.
  struct Place;

  // One forward() of it: whole from construction to its end.
  class Call {
   public:
    explicit Call(ShardedUnit& unit);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    at::Tensor input(const at::Tensor& tensor);
    // Also brings the unit back for the backward() through it.
    at::Tensor output(const at::Tensor& tensor);

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 protected:
  bool is_sharded() const { return place_ != nullptr; }

 private:
  std::shared_ptr<const Place> place_;
};

// What Sharded<> looks into for tensors: others go through as they are.
namespace sharded_detail {

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

template <class T>
T map_output(ShardedUnit::Call& call, T output) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return call.output(output);
  } else if constexpr (IsTuple<T>::value) {
    return std::apply([&](auto&&... parts) { return T(map_output(call, std::move(parts))...); },
                      std::move(output));
  } else {
    static_assert(std::is_same_v<T, std::vector<at::Tensor>>,
                  "forward() of a Sharded<> gives a Tensor, a vector of them, or a tuple of such");
    for (at::Tensor& tensor : output)
      tensor = call.output(tensor);
    return output;
  }
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
struct Forward {  // overloaded, or a template: Sequential's
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

}  // namespace sharded_detail

// `Impl` as a unit. forward() has Impl's parameters, without their default arguments.
template <class Impl,
          class Signature = typename decltype(sharded_detail::signature_of<Impl>())::type>
class ShardedImpl;

template <class Impl, class R, class... Args>
class ShardedImpl<Impl, R(Args...)> final : public Impl, public ShardedUnit {
 public:
  using Impl::Impl;
  R forward(Args... args) {
    if (!is_sharded()) return Impl::forward(std::forward<Args>(args)...);
    Call call(*this);
    return sharded_detail::map_output(
        call, Impl::forward(sharded_detail::map_input(call, std::forward<Args>(args))...));
  }
};

template <class Impl>
class ShardedImpl<Impl, sharded_detail::AnyArguments> final : public Impl, public ShardedUnit {
 public:
  using Impl::Impl;
  template <class... Args>
  auto forward(Args&&... args) {
    if (!is_sharded()) return Impl::forward(std::forward<Args>(args)...);
    Call call(*this);
    return sharded_detail::map_output(
        call, Impl::forward(sharded_detail::map_input(call, std::forward<Args>(args))...));
  }
};

// Of torch::nn::Linear, or a holder made with TORCH_MODULE.
template <class Holder>
using Sharded = torch::nn::ModuleHolder<ShardedImpl<typename Holder::ContainedType>>;

}  // namespace cairn

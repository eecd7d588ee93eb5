// Sharded training state: parameters, gradients and optimizer state spread over the ranks
// (PyTorch's FullyShardedDataParallel, for torch::nn modules in C++).
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
#include <variant>
#include <vector>

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace cairn {

// Names as PyTorch's: "float32" or "fp32", "bfloat16" or "bf16", "float16" or "fp16". Empty: as the
// parameters are.
struct FSDPMixedPrecision {
  // What units compute in; what they keep, and what the optimizer steps, stays as it is. A unit's
  // inputs are cast to it, its outputs back. Parameters of no unit compute as they are.
  std::string param_dtype = "";
  // What gradients are sent and summed in. Default: param_dtype.
  std::string reduce_dtype = "";
  // Must be empty or "float32": buffers stay as they are.
  std::string buffer_dtype = "";
};

// Composer's FSDPConfig. Fields of Composer's that are not here do not exist in this version; of
// those here a value that cannot be followed is an UnsupportedError, or a UsageError when nobody
// could.
struct FSDPConfig {
  // "FULL_SHARD": all is sharded, a unit is whole while it computes, forward and backward.
  // "SHARD_GRAD_OP": a unit stays whole from its forward to the end of its backward.
  // "HYBRID_SHARD": FULL_SHARD among the ranks of a machine, repeated on each.
  // "_HYBRID_SHARD_ZERO2": so with SHARD_GRAD_OP. "NO_SHARD": data parallel.
  std::string sharding_strategy = "FULL_SHARD";
  // "full": rank 0 writes one file. "sharded": all ranks write a folder together, each what it has,
  // in the layout of torch.distributed.checkpoint. Any number of ranks loads either.
  std::string state_dict_type = "full";
  // What such a folder is called, in save_folder; the save_filename's own last part does not count.
  std::string sharded_ckpt_prefix_dir = "ep{epoch}-ba{batch}";
  // "DEFAULT", "PURE" or "FULL", which with precision fp32 all mean float32; or dtypes.
  std::variant<std::string, FSDPMixedPrecision> mixed_precision = "DEFAULT";
  // When backward() asks for the parameters of the unit before: "BACKWARD_PRE", while a unit
  // computes (quicker, one unit more in memory), "BACKWARD_POST", while its gradients are sent,
  // "NONE".
  std::string backward_prefetch = "BACKWARD_POST";
  // Forward, too, in the order of the batch before.
  bool forward_prefetch = false;
  // Of how many ranks each has a part, and how often there is the whole. -1: what is left. Set
  // `replicate` for a hybrid; their product is the number of ranks.
  std::int64_t data_parallel_shard_degree = -1;
  std::optional<std::int64_t> data_parallel_replicate_degree = std::nullopt;
  // False: the module is one unit, whatever is wrapped in it.
  bool auto_wrap = true;
  // Logs what became of each unit.
  bool verbose = false;
  // Whatever it says, all ranks begin with rank 0's weights.
  bool sync_module_states = false;
  bool cpu_offload = false;               // true: UnsupportedError, as in Composer
  bool activation_checkpointing = false;  // true: UnsupportedError
  bool activation_cpu_offload = false;    // true: UnsupportedError
  bool use_orig_params = true;            // false: UnsupportedError
  bool limit_all_gathers = true;          // false: UnsupportedError
  bool keep_low_precision_grads = false;  // true: UnsupportedError
  bool load_monolith_rank0_only = false;  // true: UnsupportedError
};

// TrainerOptions::parallelism_config.
struct ParallelismConfig {
  std::optional<FSDPConfig> fsdp = std::nullopt;
};

// Which rows of a parameter are this rank's.
struct ShardedRows {
  std::string name = {};  // the first one in the module
  std::vector<std::int64_t> global_shape = {};
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
  // fully_shard() makes it.
  struct Impl;
  explicit ShardedModule(std::unique_ptr<Impl> impl);
  // The module keeps this rank's part, and cannot compute any more.
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

 private:
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

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"

#include "dist/sharding/sharding.h"

namespace cairn {

struct ShardedModule::Impl {
  std::shared_ptr<dist::Sharding> sharding;

  static std::shared_ptr<ShardedModule> make(std::shared_ptr<dist::Sharding> sharding) {
    auto impl = std::make_unique<Impl>(Impl{std::move(sharding)});
    return std::shared_ptr<ShardedModule>(new ShardedModule(std::move(impl)));
  }
  const dist::ShardParameter* find(const at::Tensor& parameter) const {
    return sharding->cut() == nullptr ? nullptr : sharding->cut()->find(parameter);
  }
};

ShardedModule::ShardedModule(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardedModule::~ShardedModule() = default;

std::shared_ptr<ShardedModule> fully_shard(const std::shared_ptr<torch::nn::Module>& module,
                                           const FSDPConfig& config) {
  if (module == nullptr) throw UsageError("fully_shard(): there is no module");
  check_fsdp_config(config);
  auto sharding = std::make_shared<dist::Sharding>(dist::required_group(), module, config);
  sharding->bind();
  dist::set_activation_checkpointing(*module, config.activation_checkpointing);
  return ShardedModule::Impl::make(std::move(sharding));
}

void ShardedModule::begin() { impl_->sharding->begin(); }
void ShardedModule::end() { impl_->sharding->end(); }
void ShardedModule::backward(const at::Tensor& loss, bool contributes) {
  impl_->sharding->backward(loss, contributes);
}
void ShardedModule::replay_communication(bool with_backward) {
  impl_->sharding->replay_communication(with_backward);
}
void ShardedModule::record_forward_order() { impl_->sharding->record_forward_order(); }

std::optional<ShardedRows> ShardedModule::find(const at::Tensor& parameter) const {
  const dist::ShardParameter* const found = impl_->find(parameter);
  if (found == nullptr) return std::nullopt;
  return ShardedRows{.name = found->name,
                     .global_shape = found->global_shape,
                     .begin = found->begin,
                     .count = found->count,
                     .per_rank = found->per_rank};
}

at::Tensor ShardedModule::local_rows(const at::Tensor& parameter) const {
  const dist::ShardParameter* const found = impl_->find(parameter);
  return found == nullptr ? parameter : found->rows();
}

std::int64_t ShardedModule::shard_count() const {
  return impl_->sharding->cut() == nullptr ? 1 : impl_->sharding->cut()->mesh().shards();
}
std::int64_t ShardedModule::shard_index() const {
  return impl_->sharding->cut() == nullptr ? 0 : impl_->sharding->cut()->mesh().shard();
}
std::int64_t ShardedModule::replicas() const { return dist::world_size() / shard_count(); }

double ShardedModule::sum_over_shards(double own, const std::string& what) const {
  if (impl_->sharding->cut() == nullptr) return own;
  const dist::ShardMesh& mesh = impl_->sharding->cut()->mesh();
  const dist::Channel& row = mesh.row();
  std::vector<at::Tensor> sum = {
      at::full({1}, own, at::TensorOptions(row.home).dtype(at::kDouble))};
  mesh.group().run_collective(what, [&] { mesh.group().wait(row.backend->allreduce(sum), row); });
  return sum[0].item<double>();
}

ShardedModule::Bytes ShardedModule::bytes() const {
  Bytes bytes;
  if (impl_->sharding->cut() == nullptr) return bytes;
  for (const auto& unit : impl_->sharding->cut()->units()) {
    if (unit->is_whole()) bytes.whole += unit->whole_bytes();
    for (const auto& parameter : unit->parameters()) {
      bytes.parameters += static_cast<std::int64_t>(parameter.rows().nbytes());
      for (const at::Tensor& gradient : {parameter.tensor.grad(), parameter.kept_gradient}) {
        if (gradient.defined()) bytes.gradients += static_cast<std::int64_t>(gradient.nbytes());
      }
    }
  }
  return bytes;
}

std::int64_t ShardedModule::peak_whole_bytes() const {
  return impl_->sharding->cut() == nullptr ? 0 : impl_->sharding->cut()->peak_whole_bytes();
}

std::string ShardedModule::describe() const {
  if (impl_->sharding->cut() == nullptr) return "nothing is sharded";
  std::string text = fmt::format("sharded over {} ranks, {} times", shard_count(), replicas());
  for (const auto& unit : impl_->sharding->cut()->units()) {
    std::int64_t own = 0;
    std::int64_t all = 0;
    for (const auto& parameter : unit->parameters()) {
      own += parameter.count * parameter.row_elements();
      all += parameter.global_shape[0] * parameter.row_elements();
    }
    text += fmt::format("\n  {}: {} parameters, {} of {} elements here",
                        unit->name().empty() ? "of no unit" : unit->name(),
                        unit->parameters().size(), own, all);
  }
  return text;
}

// --- A unit's forward() --------------------------------------------------------------------------

struct ShardedUnit::Call::Impl {
  std::shared_ptr<dist::ShardPass> pass;
  std::shared_ptr<dist::ShardPass::Call> call;
  std::optional<at::ScalarType> outside;  // dtype of the first floating-point input.
};

ShardedUnit::Call::Call(ShardedUnit& unit) : impl_(std::make_shared<Impl>()) {
  const auto sharding = unit.place_->sharding.lock();
  if (sharding == nullptr) {
    throw UsageError(
        "this module was sharded, and its ShardedModule (or the Trainer that had it) is gone, so "
        "it "
        "has only this rank's part. Keep the ShardedModule, or load a checkpoint into a new "
        "module");
  }
  impl_->pass = sharding->pass_for(unit.place_->index);
  impl_->call = impl_->pass->begin_call(unit.place_->index);
}

ShardedUnit::Call::~Call() {
  try {
    impl_->pass->end_call(impl_->call);
  } catch (const std::exception&) {  // The group has failed, and reports that itself.
  }
}

at::Tensor ShardedUnit::Call::input(const at::Tensor& tensor) {
  const auto type = impl_->pass->cut().compute_dtype();
  if (!type || !tensor.defined() || !tensor.is_floating_point()) return tensor;
  if (!impl_->outside) impl_->outside = tensor.scalar_type();
  return tensor.to(*type);
}

at::Tensor ShardedUnit::Call::output(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  at::Tensor given = tensor;
  const dist::CutModule& cut = impl_->pass->cut();
  const bool casts =
      cut.compute_dtype() && tensor.is_floating_point() && impl_->pass->is_outermost();
  if (casts)
    given = tensor.to(impl_->outside.value_or(cut.units()[impl_->call->unit]->stored_dtype()));
  if (given.requires_grad()) impl_->pass->add_hook(given, impl_->call);
  return given;
}

ShardedUnit::Inside::Inside(std::shared_ptr<Call::Impl> call) : call_(std::move(call)) {
  call_->pass->enter_forward();
}
ShardedUnit::Inside::~Inside() { call_->pass->leave_forward(); }

void sharded_detail::refuse_to_recompute() {
  throw UnsupportedError(
      "activation_checkpointing: forward() of a Sharded<> has an argument that cannot be copied, "
      "or "
      "that it may change (a reference that is not const), so backward() cannot compute it again. "
      "Take tensors, or leave activation_checkpointing out and call checkpoint_activations()");
}

}  // namespace cairn

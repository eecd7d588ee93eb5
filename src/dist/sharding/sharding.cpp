#include "dist/sharding/sharding.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "dist/page_tensor.h"

namespace cairn::dist {

void set_activation_checkpointing(torch::nn::Module& module, bool recomputes) {
  if (auto* const unit = dynamic_cast<ShardedUnit*>(&module))
    ShardedUnit::Place::set_recomputes(*unit, recomputes);
  for (const auto& child : module.named_children()) {
    if (child.value() != nullptr) set_activation_checkpointing(*child.value(), recomputes);
  }
}

Sharding::Sharding(Group* group, std::shared_ptr<torch::nn::Module> module,
                   const FSDPConfig& config)
    : group_(group),
      module_(std::move(module)),
      backward_prefetch_(config.backward_prefetch.value().value()),
      forward_prefetch_(config.forward_prefetch) {
  const MeshShape shape = mesh_shape(config, world_size(), local_world_size());
  if (group_ == nullptr) return;
  std::vector<at::Tensor> tensors = module_->parameters();
  for (const at::Tensor& buffer : module_->buffers())
    tensors.push_back(buffer);
  broadcast_tensors(tensors, "sending the model's weights");
  if (shape.shards == 1) return;
  cut_ = std::make_shared<CutModule>(*group_, shape, *module_, config);
  give_back_heap();
}

void Sharding::bind() {
  if (!cut_) return;
  for (std::size_t i = 0; i < cut_->units().size(); ++i) {
    ShardedUnit* const unit = cut_->wrapped()[i];
    if (unit == nullptr || cut_->units()[i]->parameters().empty()) continue;
    ShardedUnit::Place::set(*unit, {weak_from_this(), i});
  }
}

void Sharding::begin() {
  if (std::exchange(is_begun_, true)) {
    throw UsageError("ShardedModule::begin() was called twice: call end() after the first");
  }
  if (!cut_) return;
  pass_ = std::make_shared<ShardPass>(
      cut_, ShardPass::Prefetch{
                .backward = backward_prefetch_,
                .forward_order = forward_prefetch_ ? order_ : std::vector<std::size_t>()});
  pass_->begin();
}

void Sharding::end() {
  is_begun_ = false;
  if (pass_) pass_->end();
}

std::shared_ptr<ShardPass> Sharding::pass_for(std::size_t unit) const {
  if (is_begun_) return pass_;
  throw UsageError(
      fmt::format("{} of a sharded module is used outside of a pass, where it is not whole: call "
                  "ShardedModule::begin() before it and end() after it, on all ranks",
                  cut_->text_of(unit)));
}

void Sharding::backward(const at::Tensor& loss, bool contributes) {
  if (!is_begun_) throw UsageError("ShardedModule::backward() belongs between begin() and end()");
  if (pass_) return pass_->backward(loss, contributes);
  loss.backward();
  if (group_ != nullptr) average_gradients();
}

void Sharding::average_gradients() {
  std::vector<at::Tensor> trainable;
  for (const at::Tensor& parameter : module_->parameters()) {
    const bool is_known = std::ranges::any_of(
        trainable, [&](const at::Tensor& other) { return other.is_same(parameter); });
    if (parameter.requires_grad() && !is_known) trainable.push_back(parameter);
  }
  if (!sync_ || !sync_->has_parameters(trainable))
    sync_ = std::make_unique<GradientSync>(*group_, trainable);
  sync_->finish("averaging the gradients");
}

void Sharding::replay_communication(bool with_backward) {
  if (!cut_) return;
  if (!pass_ || pass_->has_no_collectives()) {
    throw UsageError(
        "a rank has no batch at all where others have one: a sharded module computes on all "
        "ranks together. Give each at least one, or fewer ranks");
  }
  pass_->replay_communication(with_backward);
}

void Sharding::record_forward_order() {
  if (pass_) order_ = pass_->forward_order();
}

}  // namespace cairn::dist

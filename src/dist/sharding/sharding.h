// The implementation of a ShardedModule: its passes, and the state between them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "cairn/dist/sharding.h"

#include "dist/sharding/cut_module.h"
#include "dist/sharding/gradient_sync.h"
#include "dist/sharding/shard_pass.h"

namespace cairn::dist {

// FSDPConfig::activation_checkpointing, of each Sharded<> in the module.
void set_activation_checkpointing(torch::nn::Module& module, bool recomputes);

class Sharding : public std::enable_shared_from_this<Sharding> {
 public:
  Sharding(Group* group, std::shared_ptr<torch::nn::Module> module, const FSDPConfig& config);

  // Makes the units refer to this object. Call it when a shared_ptr owns this object.
  void bind();

  // These functions are described in ShardedModule.
  void begin();
  void end();
  void backward(const at::Tensor& loss, bool contributes);
  void replay_communication(bool with_backward);
  void record_forward_order();

  // The pass that uses the unit. Throws UsageError outside of a pass.
  std::shared_ptr<ShardPass> pass_for(std::size_t unit) const;
  const CutModule* cut() const { return cut_.get(); }  // Null: nothing is sharded.

 private:
  void average_gradients();

  Group* group_;  // Null: one process.
  std::shared_ptr<torch::nn::Module> module_;
  BackwardPrefetch backward_prefetch_;
  bool forward_prefetch_;
  std::shared_ptr<CutModule> cut_;
  std::unique_ptr<GradientSync> sync_;  // For NO_SHARD with several processes.
  bool is_begun_ = false;
  std::shared_ptr<ShardPass> pass_;  // The last one; null if nothing is sharded.
  std::vector<std::size_t> order_;   // For forward_prefetch.
};

}  // namespace cairn::dist

namespace cairn {

struct ShardedUnit::Place {
  std::weak_ptr<dist::Sharding> sharding;
  std::size_t index = 0;  // The unit's.

  static void set(ShardedUnit& unit, Place place) {
    unit.place_ = std::make_shared<const Place>(std::move(place));
  }
  static void set_recomputes(ShardedUnit& unit, bool recomputes) { unit.recomputes_ = recomputes; }
};

}  // namespace cairn

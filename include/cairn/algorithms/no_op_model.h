// NoOpModel: replaces the model by one that computes nothing (composer/algorithms/no_op_model).
#pragma once

#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/model.h"

namespace CAIRN_PUBLIC cairn {

// At Event::kInit replaces State::model by no_op_model(), and the optimizer's parameters by its
// one. Shows how fast a run is without its model: loaders, callbacks, saves. Checkpoints have the
// one parameter, "weights", and no other run loads them. Not for a sharded model: the Trainer
// throws UnsupportedError.
class NoOpModel final : public Algorithm {
 public:
  std::string name() const override { return "NoOpModel"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override { return "NoOpModel()"; }
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;
};

// Composer's NoOpModelClass: multiplies the targets, at position 1 of a batch, by a weight of 1.5,
// and learns that it should be 1. Its metric is BinaryAccuracy, so targets must be 0 or 1.
std::shared_ptr<Model> no_op_model();

}  // namespace cairn

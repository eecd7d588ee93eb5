// A pass through a sharded module, forward and backward: decides which unit is whole when.
//
//  1. begin(): the parameters that are in no Sharded<> (the root's) are gathered, and stay whole
//     until end().
//  2. A unit is gathered when its forward() begins. When that forward() ends, the unit is released
//     (FULL_SHARD), or stays (SHARD_GRAD_OP). A hook on its output gathers it again before
//     backward() goes through it.
//  3. backward() computes the latest results first. So when it comes to a unit, it is done with all
//     units whose forward() began after the forward() of this unit had ended. The gradients of
//     those units are sent, and the units are released. The other units are finished at the end:
//     the outer ones of nested units, and the first unit.
//  4. The gradients of at most one unit are under way at a time, and at most one unit is gathered
//     ahead.
//  5. A pass notes its collectives. If a rank has nothing to compute while other ranks have, it
//     repeats the noted collectives with no gradients of its own (replay_communication()), since
//     Gloo matches messages by their order. For the same reason, the order of forward_prefetch
//     changes only between batches.
//  6. With activation checkpointing, autograd does not record the first call of a unit inside of
//     another unit, and backward() calls that unit's forward() again. The second call has the times
//     of the first, so that step 3 holds. A unit whose gradients are not sent yet stays whole when
//     a second call ends.
//  7. Errors in hooks end backward(), since a unit that was not gathered has no memory. The errors
//     are thrown again after backward(), since autograd's engine loses their class.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "dist/sharding/cut_module.h"

namespace cairn::dist {

class ShardPass : public std::enable_shared_from_this<ShardPass> {
 public:
  struct Prefetch {
    BackwardPrefetch backward;
    std::vector<std::size_t> forward_order;  // Units of an earlier pass; empty: no
                                             // forward_prefetch.
  };
  ShardPass(std::shared_ptr<CutModule> cut, Prefetch prefetch);

  const CutModule& cut() const { return *cut_; }

  void begin();
  void backward(const at::Tensor& loss, bool contributes);
  void end();
  // Call it after end().
  void replay_communication(bool with_backward);
  bool has_no_collectives() const { return notes_.empty(); }
  // The units, in the order in which their forward() began.
  std::vector<std::size_t> forward_order() const;

  // A call of a unit's forward().
  struct Call {
    std::size_t unit = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;    // 0: it has not ended.
    bool is_back = false;     // backward() has come to it.
    bool is_recorded = true;  // By autograd.
  };
  std::shared_ptr<Call> begin_call(std::size_t unit);
  void end_call(const std::shared_ptr<Call>& call);
  void add_hook(const at::Tensor& output, const std::shared_ptr<Call>& call);
  // Around the computation of a unit's forward(), also when backward() computes it again.
  void enter_forward() { ++depth_; }
  void leave_forward() { --depth_; }
  // Whether a call that computes nothing now is not inside of another unit's forward().
  bool is_outermost() const { return depth_ == 0; }

 private:
  enum class Done { kGathered, kReduced };
  struct Note {
    Done done;
    std::size_t unit;
  };

  std::shared_ptr<Call> find_unrecorded(std::size_t unit) const;
  bool is_active(std::size_t unit) const;
  void begin_gather(std::size_t unit);
  void gather(std::size_t unit);
  void prefetch_forward(std::size_t unit);
  void prefetch_backward(const Call& call);
  void begin_backward_of(const std::shared_ptr<Call>& call);
  void finish_units_after(std::uint64_t end);
  void send_gradients(std::size_t unit);
  void finish_sending();
  bool has_sent(std::size_t unit) const;
  void check_all_went_through_units(const std::vector<std::vector<bool>>& before) const;

  const std::shared_ptr<CutModule> cut_;
  const std::vector<std::unique_ptr<ShardUnit>>& units_;  // cut_'s.
  const Prefetch prefetch_;
  bool is_backward_ = false;
  bool contributes_ = true;
  std::uint64_t clock_ = 0;
  std::size_t depth_ = 0;  // Units whose forward() computes now, one inside another.
  std::vector<std::shared_ptr<Call>> calls_;
  std::vector<std::shared_ptr<Call>> active_;  // The calls that backward() is inside.
  std::optional<std::size_t> sending_;         // The unit whose gradients are being sent.
  std::vector<Note> notes_;                    // The collectives of this pass (step 5).
  std::size_t forward_notes_;                  // The number of notes before backward().
  std::exception_ptr error_;
};

}  // namespace cairn::dist

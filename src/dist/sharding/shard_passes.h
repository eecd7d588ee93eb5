// A sharded module at work: which unit is whole when.
//
//  1. begin(): the parameters that no unit has (the root's) come, and stay until end().
//  2. A unit comes when its forward() begins, and goes when that ends (FULL_SHARD), or stays
//     (SHARD_GRAD_OP). A hook on what it gave brings it back before backward() goes through it.
//  3. backward() computes what was made last first. So when it comes to a unit, all units whose
//     forward() began after this one's had ended are done with: their gradients are sent, and they
//     go. Others are done with at the end: the outer ones of nested units, and the first.
//  4. Of one unit at a time the gradients are under way, and one is asked for ahead at most.
//  5. What all ranks do together is noted. Who has nothing to compute while others have does the
//     same once more (repeat_for_others()), with no gradients of its own: Gloo matches messages by
//     their order. Hence forward_prefetch goes by an order that changes between batches only.
//  6. Errors in hooks end backward(), for a unit that did not come has no memory; and are thrown
//     anew behind it, since autograd's engine loses their class.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cairn/dist/sharding.h"

#include "dist/sharding/gradient_sync.h"
#include "dist/sharding/shard_unit.h"

namespace cairn {

// Of FSDPMixedPrecision; nullopt for other words.
std::optional<at::ScalarType> find_floating_dtype(const std::optional<std::string>& name);

}  // namespace cairn

namespace cairn::dist {

class Sharding : public std::enable_shared_from_this<Sharding> {
 public:
  Sharding(Group* group, std::shared_ptr<torch::nn::Module> module, const FSDPConfig& config);

  // Makes the units know it; once it is a shared_ptr.
  void bind();

  void begin();
  void end();
  void backward(const at::Tensor& loss, bool contributes);
  void repeat_for_others(bool with_backward);
  void note_order() { order_ = forward_order_; }

  // A unit's forward().
  struct Call {
    ShardUnit* unit = nullptr;
    std::size_t index = 0;  // of the unit
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool is_back = false;  // backward() has come to it
  };
  std::shared_ptr<Call> begin_call(std::size_t unit);
  void end_call(const std::shared_ptr<Call>& call);
  void add_hook(const at::Tensor& output, const std::shared_ptr<Call>& call);
  bool is_outermost() const { return depth_ == 1; }
  std::optional<at::ScalarType> compute_dtype() const { return dtypes_.compute; }

  const ShardMesh* mesh() const { return mesh_.get(); }  // null: nothing is sharded
  const std::vector<std::unique_ptr<ShardUnit>>& units() const { return units_; }
  const ShardUnit::Parameter* find(const at::Tensor& parameter) const;
  std::int64_t peak_whole_bytes() const { return peak_whole_bytes_; }

 private:
  enum class Done { kGathered, kReduced };
  struct Note {
    Done done;
    std::size_t unit;
  };
  struct Collected;

  void collect(const torch::nn::Module& module, const std::string& name, std::size_t unit,
               Collected& found) const;
  void make_units(const FSDPConfig& config);
  void ask_for(std::size_t unit);
  void bring(std::size_t unit);
  void prefetch_forward(std::size_t unit);
  void prefetch_backward(const Call& call);
  void come_back_to(Call& call);
  void finish_units_after(std::uint64_t end);
  void send_gradients(std::size_t unit);
  void finish_sending();
  void check_all_went_through_units(const std::vector<std::vector<bool>>& before) const;
  void reset();

  Group* group_;  // null: one process
  std::shared_ptr<torch::nn::Module> module_;
  std::unique_ptr<ShardMesh> mesh_;
  std::unique_ptr<GradientSync> sync_;  // NO_SHARD in several processes
  BackwardPrefetch backward_prefetch_;
  bool forward_prefetch_ = false;
  UnitDtypes dtypes_;
  std::vector<ShardedUnit*> wrapped_;              // by unit; null: the root
  std::vector<std::unique_ptr<ShardUnit>> units_;  // the root first
  std::unordered_map<const c10::TensorImpl*, std::pair<std::size_t, std::size_t>> places_;

  bool is_begun_ = false;
  bool is_backward_ = false;
  bool contributes_ = true;
  std::uint64_t clock_ = 0;
  std::size_t depth_ = 0;
  std::vector<std::shared_ptr<Call>> calls_;   // of this pass
  std::vector<std::shared_ptr<Call>> active_;  // backward() is in them
  std::vector<bool> has_sent_;                 // units, in this pass
  std::optional<std::size_t> sending_;         // unit
  std::vector<Note> notes_;                    // step 5
  std::size_t forward_notes_ = 0;              // so many of them before backward()
  std::vector<std::size_t> forward_order_;     // of the last pass, units
  std::vector<std::size_t> order_;             // forward_prefetch
  std::exception_ptr error_;
  std::int64_t peak_whole_bytes_ = 0;
};

}  // namespace cairn::dist

namespace cairn {

struct ShardedUnit::Place {
  std::weak_ptr<dist::Sharding> sharding;
  std::size_t index = 0;  // of the unit

  static void set(ShardedUnit& unit, Place place) {
    unit.place_ = std::make_shared<const Place>(std::move(place));
  }
};

}  // namespace cairn

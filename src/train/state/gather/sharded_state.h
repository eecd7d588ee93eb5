// The state of a sharded run (State::sharding) as Values.
//
//  1. Each rank's own part: tensors that are marked with their place in the whole
//     (mark_own_parts()).
//  2. The whole, for rank 0 (WholeState): tensors whose bytes come from the other ranks when they
//     are read, as by a saver's snapshot. The snapshot then holds the only copy of the whole state.
//  3. The reverse, when a whole is loaded: this rank's rows are cut out before anything is read, so
//     that only these rows are read (cut_to_own_rows()).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/value.h"

namespace cairn::dist {
class RowGather;
}

namespace CAIRN_PUBLIC cairn {
class State;
struct ShardedRows;
}  // namespace cairn

namespace cairn {

// Whether ranks have only parts of the model of `state`.
bool is_sharded(const State& state);

// Step 1. `entries`: from State::state_dict().
void mark_own_parts(const State& state, Value& entries);

// Does step 2 while it lives. Construct it on all ranks. On ranks above 0 the constructor returns
// when rank 0's object is destroyed. Does nothing for a state that is not sharded.
class WholeState {
 public:
  // Throws DistError.
  WholeState(const State& state, bool weights_only);
  ~WholeState();
  WholeState(const WholeState&) = delete;
  WholeState& operator=(const WholeState&) = delete;

  // Rank 0 calls this once. Replaces rank 0's own rows with whole tensors. `at_once`: their bytes
  // are gathered into memory now, not when they are read. Throws DistError.
  void complete(Value& entries, bool at_once = false);

 private:
  const State& state_;
  const bool weights_only_;
  std::shared_ptr<dist::RowGather> gather_;
};

// Step 3. `entries`: a checkpoint's "state". Returns descriptions of what does not fit, as "w is
// [2], ...". A part that is exactly this rank's (TensorView::part) stays; parts of other ranks do
// not fit.
std::vector<std::string> cut_to_own_rows(const State& state, Value& entries);

}  // namespace cairn

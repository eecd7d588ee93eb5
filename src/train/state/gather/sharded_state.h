// The state of a sharded run (State::sharding) as Values.
//
//  1. Each rank's own: tensors that say which part of the whole they are (own_parts()).
//  2. The whole, for rank 0 (WholeState): tensors whose bytes come from the other ranks when they
//     are read, as by a saver's snapshot, which so holds the whole state once, and nobody twice.
//  3. The other way round, of a whole that is loaded: what is this rank's of it, before any of it
//     is read, so that no more is (cut_to_own_rows()).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn::dist {
class RowGather;
}

namespace cairn {

class State;
struct ShardedRows;

// Whether ranks have parts of its model.
bool is_sharded(const State& state);

// Step 1. `entries` as State::state_dict() makes it.
void mark_own_parts(const State& state, Value& entries);

// Step 2, as long as it lives. Made on all ranks: it returns on the others when rank 0's is gone.
// Does nothing of what is not sharded.
class WholeState {
 public:
  // DistError.
  WholeState(const State& state, bool weights_only);
  ~WholeState();
  WholeState(const WholeState&) = delete;
  WholeState& operator=(const WholeState&) = delete;

  // Rank 0, once: puts wholes in the place of its own rows. `at_once`: in memory. DistError.
  void complete(Value& entries, bool at_once = false);

 private:
  const State& state_;
  const bool weights_only_;
  std::shared_ptr<dist::RowGather> gather_;
};

// Step 3. `entries`: what a checkpoint has at "state". Gives what does not fit, as "w is [2], ...".
// What is this rank's alone already (TensorView::part) stays; parts of others do not fit.
std::vector<std::string> cut_to_own_rows(const State& state, Value& entries);

}  // namespace cairn

// One file for the whole run. Rank 0 writes it. The other ranks send what rank 0 cannot know about
// them (JoinedState).
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/names/launch.h"
#include "dist/team.h"
#include "saving/layout.h"
#include "saving/places/destination.h"
#include "train/state/gather/checkpoint_info.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/gather/state_gatherer.h"
#include "train/state/replica_check.h"

namespace cairn {

JoinedState::JoinedState() = default;
JoinedState::~JoinedState() = default;
JoinedState::JoinedState(JoinedState&&) noexcept = default;
JoinedState& JoinedState::operator=(JoinedState&&) noexcept = default;

bool CheckpointLayout::is_writer() const { return !is_written_elsewhere(); }

namespace {

class OneFile final : public CheckpointLayout {
 public:
  bool is_of_all_ranks() const override { return false; }
  // The size of a compressed file is not known in advance.
  bool has_known_size(const CheckpointSaverOptions& options) const override {
    return find_extension(options.filename).codec == nullptr;
  }

  JoinedState join(const State& state, bool weights_only) const override {
    JoinedState joined;
    if (!weights_only) joined.rng = rng_of_all_ranks(state);
    joined.whole = std::make_unique<WholeState>(state, weights_only);
    return joined;
  }

  // False for a sharded run: its file has whole parameters, but each rank has only its rows. False
  // with ignore_keys: a function may change the saved state.
  bool hashes_copies(const State& state, const CheckpointSaverOptions& options) const override {
    return options.save_async && is_writer() && state.sharding == nullptr &&
           options.ignore_keys.empty();
  }

  void save(Destination& to, const SaveRequest& what, JoinedState joined) override {
    if (!is_writer()) return;
    SaveJob job = to.plan(what);
    to.submit(std::move(job), [&](SaveJob& filled) {
      filled.value = gatherer_.checkpoint_value(
          what.state, std::move(joined.rng), *joined.whole,
          {to.options().weights_only, to.options().ignore_keys}, &what.logger);
      if (!Team::of_job().is_alone()) what.replicas.hash_copies(what.state, filled);
    });
  }

  void forget_saves() override { gatherer_ = {}; }

 private:
  StateGatherer gatherer_;  // Continues from the previous save.
};

}  // namespace

std::unique_ptr<CheckpointLayout> one_file() { return std::make_unique<OneFile>(); }

}  // namespace cairn

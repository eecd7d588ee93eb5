// One file with what cairn::Checkpoints holds: a dict of a program's own entries. Rank 0 writes it.
#include "cairn/train/state.h"

#include "saving/layout.h"
#include "saving/places/destination.h"
#include "train/state/checkpoint_form.h"
#include "train/state/gather/checkpoint_info.h"

namespace cairn {
namespace {

class DictFile final : public CheckpointLayout {
 public:
  bool is_of_all_ranks() const override { return false; }
  bool has_known_size(const CheckpointSaverOptions& /*options*/) const override { return false; }

  JoinedState join(const State& state, bool /*weights_only*/) const override {
    JoinedState joined;
    joined.rng = rng_of_all_ranks(state);
    return joined;
  }

  void save(Destination& to, const SaveRequest& what, JoinedState joined) override {
    if (!is_writer()) return;
    SaveJob job = to.plan(what);
    const auto& content = State::CheckpointForm::of(what.state).content;
    to.submit(std::move(job),
              [&](SaveJob& filled) { filled.value = content(std::move(joined.rng)); });
  }
};

}  // namespace

std::unique_ptr<CheckpointLayout> dict_file() { return std::make_unique<DictFile>(); }

}  // namespace cairn

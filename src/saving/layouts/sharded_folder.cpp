// A folder that all ranks write (state_dict_type "sharded"). Rank 0 chooses the path and the
// superfluous checkpoints, and removes these checkpoints. The first rank of each other machine
// removes the parts that only this machine has.
#include <optional>

#include "cairn/train/state.h"

#include "checkpoint/names/run_forms.h"
#include "dist/team.h"
#include "io/file.h"
#include "saving/layout.h"
#include "saving/places/destination.h"
#include "train/state/checkpoint_form.h"
#include "train/state/gather/rank_saves.h"

namespace cairn {
namespace {

class ShardedFolder final : public CheckpointLayout {
 public:
  void adapt(CheckpointSaverOptions& options, const State& state,
             bool /*has_uploads*/) const override {
    const std::string& prefix = State::CheckpointForm::of(state).sharded_ckpt_prefix_dir;
    options.filename = as_folder_format(options.filename, prefix);
    if (options.remote_file_name)
      options.remote_file_name = as_folder_format(*options.remote_file_name, prefix);
  }

  bool is_first_of_another_machine() const override { return ranks_.is_first_of_another_machine(); }
  bool makes_folders() const override { return true; }
  bool has_known_size(const CheckpointSaverOptions& /*options*/) const override { return true; }

  void save(Destination& to, const SaveRequest& what, JoinedState /*joined*/) override {
    // The folder's path may differ between ranks. Rank 0 sends names relative to it.
    const std::string home = writers_folder(to.options(), what.state);
    const std::string own = save_path(to.options(), what.state);
    const auto name_of = [&](const std::string& path) {
      return relative_path(normal_path(path), normal_path(home));
    };
    std::optional<SaveJob> job;
    const Value plan = Team::of_job().do_on_first("before saving " + own, [&]() -> Value {
      job = to.plan(what);
      List superfluous;
      for (const std::string& old : job->remove_afterwards)
        superfluous.emplace_back(name_of(old));
      return List{name_of(job->path), job->replace != Replace::kNever, std::move(superfluous)};
    });
    const List& said = plan.as_items();
    const std::string path = join_path(home, said.at(0).as_str());
    if (!job) job = to.plan_part(what, path, said.at(2).as_items());
    job->replace = replace_if(said.at(1).as_bool());
    to.submit(std::move(*job), [&](SaveJob& filled) {
      // Gathering may take long on one rank (a dataset's or a callback's state_dict()). Otherwise
      // the saving threads of the other ranks would give that rank up.
      Team::of_job().run_on_all("gathering the state for " + path, [&] {
        ranks_.fill(filled, what.state, {to.options().weights_only, to.options().ignore_keys},
                    &what.logger);
      });
    });
  }

 private:
  RankSaves ranks_;
};

}  // namespace

std::unique_ptr<CheckpointLayout> sharded_folder() { return std::make_unique<ShardedFolder>(); }

}  // namespace cairn

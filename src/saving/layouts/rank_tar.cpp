// A tar per rank (deepspeed_config). Every rank has its own names, and all ranks save together: a
// failure on one rank is a failure on all.
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "checkpoint/names/format_string.h"
#include "checkpoint/names/run_forms.h"
#include "dist/team.h"
#include "saving/layout.h"
#include "saving/places/destination.h"
#include "train/state/gather/rank_saves.h"

namespace cairn {
namespace {

class RankTar final : public CheckpointLayout {
 public:
  void adapt(CheckpointSaverOptions& options, const State& state, bool has_uploads) const override {
    if (options.weights_only) {
      throw UnsupportedError(
          "weights_only (save_weights_only) does not go with deepspeed_config: each rank has only "
          "a "
          "part of the weights. Save the whole state; `cairn convert` makes a file of weights from "
          "all ranks' tars");
    }
    if (has_uploads) {
      throw UnsupportedError(
          "deepspeed_config: the ranks' tars are not uploaded by loggers: set remote_file_name to "
          "nullopt, leave the logger out, or save into the store itself, for example with "
          "save_folder s3://bucket/{run_name}");
    }
    require_rank(options.filename);
    if (!has_counter(NameFormat(options.filename))) {
      throw UsageError(
          "\"" + options.filename +
          "\" is the same name at every save, and the ranks' tars cannot all be replaced at once: "
          "a rank that dies meanwhile would leave no complete save.\nPut a counter into the name, "
          "for example ep{epoch}-ba{batch}-rank{rank}.tar, and limit their number with "
          "save_num_checkpoints_to_keep");
    }
    options.filename = as_tar_format(options.filename);
    if (options.latest_filename) {
      require_rank(*options.latest_filename);
      options.latest_filename = as_tar_format(*options.latest_filename);
    }
    check_rank_tars(state);
  }

  bool is_writer() const override { return true; }
  bool is_first_of_another_machine() const override { return ranks_.is_first_of_another_machine(); }
  bool has_known_size(const CheckpointSaverOptions& /*options*/) const override { return false; }

  void save(Destination& to, const SaveRequest& what, JoinedState /*joined*/) override {
    SaveJob job;
    Team::of_job().run_on_all("before saving " + save_path(to.options(), what.state),
                              [&] { job = to.plan(what); });
    to.submit(std::move(job), [&](SaveJob& filled) {
      ranks_.fill_tar(filled, what.state, {to.options().weights_only, to.options().ignore_keys},
                      &what.logger);
    });
  }

 private:
  RankSaves ranks_;
};

}  // namespace

std::unique_ptr<CheckpointLayout> rank_tar() { return std::make_unique<RankTar>(); }

}  // namespace cairn

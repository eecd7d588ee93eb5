// How the ranks of a job save a checkpoint that has one file from each.
//
// clang-format off
//  1. call      Each rank checks its pointer (FarWrite::check). Rank 0 draws the save's id, which
//               is in every file, and tells all ranks.
//  2. write     Each rank writes its file and makes it durable. The file has no name yet
//               (ObjectWrite: a temporary name in a folder, an open upload in a store). If a rank
//               has no space or dies in this step, the save ends for all ranks, and no file gets
//               its name.
//  3. decide    Rank 0 decides for the checkpoint when all ranks have reported (roll_call.h).
//  4. publish   Each rank gives its file its name, durably, and reports this. Many files cannot be
//               renamed in one step. So if a rank dies in this step, only some ranks may have their
//               files. A resume takes only a save of which every rank has its file. The id in the
//               files shows this (resuming/rank_tar_loads.h), so files of two saves are never
//               combined.
//  5. point     The ranks move their pointers only after all ranks have published. Superfluous
//               files are removed only after all ranks have moved their pointers. Until then every
//               rank has its file of the previous save.
// clang-format on
//
// Steps 1 to 3 are one roll call (consult.h), steps 4 and 5 one each.
#include "checkpoint/ranks/save_rank_tars.h"

#include <fmt/format.h>

#include <memory>

#include "cairn/error.h"

#include "checkpoint/plan/rank_tar.h"
#include "checkpoint/plan/write_plan.h"
#include "checkpoint/ranks/consult.h"
#include "checkpoint/ranks/living_store.h"
#include "io/durable/atomic_file.h"
#include "storage/publish/publish.h"

namespace cairn {
namespace {

// A key that a later roll call removes (RollCall::forget()).
std::string report_key(std::int64_t rank) { return "report/" + std::to_string(rank); }

// Rank 0 waits until all other ranks have reported that they have done their part. The other ranks
// wait for rank 0's decision.
void wait_for_reports(RollCall& call) {
  if (!call.is_leader()) {
    call.set(report_key(call.me().rank), "1");
    call.wait_for_decision();
    return;
  }
  for (std::int64_t rank = 1; rank < call.me().world_size; ++rank)
    call.wait_for(report_key(rank));
  call.forget_earlier_calls();
  decide_for(call);
}

// Names the batch, for the message about ranks that are out of step.
std::string moment_of(const CheckpointInfo& info) {
  return info.timestamp ? "batch " + std::to_string(info.timestamp->batch) : "no batch";
}

// Step 1.
std::string learn_id(RankTable& table, RollCall& call, const RankTarsJob& job) {
  const std::string moment = moment_of(job.info);
  if (call.is_leader()) {
    std::string id = table.draw_id ? table.draw_id() : random_digits();
    call.set("call", id + " " + moment);
    return id;
  }
  const std::string called = call.wait_for("call");
  const std::size_t blank = std::min(called.find(' '), called.size());
  if (called.substr(std::min(blank + 1, called.size())) != moment) {
    throw UsageError(
        fmt::format("rank 0 saves {} at the same time, and this one {}. All ranks must save the "
                    "same checkpoints, in the same order",
                    called.substr(std::min(blank + 1, called.size())), moment));
  }
  return called.substr(0, blank);
}

// This rank's file. While the store cannot be reached, each step is tried again, as the job's
// `retry` says.
class OwnFile {
 public:
  OwnFile(RankTable& table, LivingStore& living, const RankTarsJob& job)
      : table_(table), living_(living), job_(job) {}

  // Step 2, after step 1 has given the save's id.
  void write(RollCall& call, const std::string& id) {
    report_.attempt = id;
    const RetryPolicy retry = living_.with_living_pauses(job_.far.retry);
    file_ = with_retries(retry, [&] {
      auto file = living_.store().begin(job_.path, {.condition = condition_of(job_.replace)});
      report_.bytes = fill(call, *file);
      call.keep_alive();
      file->make_durable();
      return file;
    });
  }

  // Step 4. After an error, either the file is lost, or it has its name and only the answer was
  // lost. write_until_seen() finds out which.
  void publish(RollCall& call) {
    const RetryPolicy retry = living_.with_living_pauses(job_.far.retry);
    try {
      return call.with_signs_of_life([&] { file_->commit(); });
    } catch (const StorageError& e) {
      if (!living_.may_be_far() || !e.retryable()) throw;
      if (retry.on_retry) retry.on_retry(e, {});
    }
    write_until_seen(living_.store(),
                     {.name = job_.path,
                      .replace = job_.replace,
                      .fill = [&](ObjectWrite& out) { fill(call, out); },
                      .may_be_there = true},
                     retry);
  }

  const RankTarsReport& report() const { return report_; }

 private:
  std::uint64_t fill(RollCall& call, ObjectWrite& out) const {
    ObjectSink sink(out);
    return write_rank_tar({.path = job_.path,
                           .checkpoint = job_.checkpoint,
                           .names = job_.names,
                           .rank = {.rank = table_.me.rank,
                                    .world_size = table_.me.world_size,
                                    .stage = job_.stage,
                                    .attempt = report_.attempt},
                           .info = job_.info,
                           .keep_alive = [&call] { call.keep_alive(); }},
                          sink);
  }

  RankTable& table_;
  LivingStore& living_;
  const RankTarsJob& job_;
  RankTarsReport report_;
  std::unique_ptr<ObjectWrite> file_;
};

}  // namespace

RankTarsReport save_rank_tars(RankTable& table, ObjectStore& store, const RankTarsJob& job) {
  const std::string what =
      fmt::format("saving the tars of {} on {} ranks", moment_of(job.info), table.me.world_size);
  LivingStore living(store);
  OwnFile own(table, living, job);
  consult(table, what, "writing its file", [&](RollCall& call) {
    living.join(call);
    living.check(job.far);
    own.write(call, learn_id(table, call, job));
    wait_for_reports(call);
    return true;
  });
  consult(table, what + " (some may have their names: the next start finds out)",
          "publishing its file", [&](RollCall& call) {
            living.join(call);
            own.publish(call);
            wait_for_reports(call);
            return true;
          });
  consult(table, what + " (they are saved, but not all pointers have been moved)",
          "moving its pointer", [&](RollCall& call) {
            if (job.point) call.with_signs_of_life(job.point);
            wait_for_reports(call);
            return true;
          });
  return own.report();
}

}  // namespace cairn

// How the ranks of a job save one checkpoint.
//
//  1. describe  Rank 0 checks the pointer (FarWrite::check). Each rank describes its part of the
//               state (sharded/rank_state.h). If rank 0 keeps the description and the part has not
//               changed, the rank only says so (sharded/kept_plan.h). Most ranks have the same
//               names, so a rank sends its names only if they differ from rank 0's.
//  2. plan      Rank 0 plans which rank writes what (sharded/global_plan.h), unless nothing has
//               changed, and tells each rank. If the parts do not form one state, all ranks throw
//               an error now, before the first byte is written.
//  3. write     Each rank writes its files as its plan says, from the tensors' own memory, and
//               reports where each part is in these files.
//  4. commit    commit_over_ranks.cpp makes one checkpoint of the files, or nothing. `.metadata` is
//               made from all reports.
//
// Steps 1 and 2 are one roll call (consult.h), steps 3 and 4 the next one.
#include "checkpoint/ranks/save_over_ranks.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/plan/write_plan.h"
#include "checkpoint/ranks/consult.h"
#include "checkpoint/ranks/living_store.h"
#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/kept_plan.h"
#include "checkpoint/sharded/rank_files.h"
#include "checkpoint/sharded/rank_state.h"
#include "core/hash/xxh3.h"
#include "format/dcp/metadata/write_metadata.h"
#include "io/durable/atomic_file.h"

namespace cairn {
namespace {

using sharded::Description;
using sharded::GlobalPlan;
using sharded::KeptPlan;

std::string key_of(const char* what, std::int64_t rank) {
  return std::string(what) + "/" + std::to_string(rank);
}

// The result of planning for one rank.
struct Planned {
  std::string own;                         // the plan of what it writes
  std::shared_ptr<const GlobalPlan> plan;  // on rank 0
};

// Steps 1 and 2.
Planned plan_over_ranks(RankTable& table, const std::string& what, KeptPlan& kept,
                        const std::function<Description(RollCall&)>& describe) {
  return consult(table, what, "planning its part", [&](RollCall& call) -> Planned {
    const Description own = describe(call);
    if (!call.is_leader()) {
      const std::string answer = kept.answer(call.wait_for("call"), own);
      call.set(key_of("report", call.me().rank), answer);
      call.wait_for_decision();
      return {call.wait_for(key_of("plan", call.me().rank)), nullptr};
    }
    call.set("call", kept.ask(table.draw_id ? table.draw_id() : random_digits(), own));
    Planned planned;
    planned.plan = kept.plan(
        own, static_cast<std::uint32_t>(call.me().world_size),
        [&](std::uint32_t rank) { return call.wait_for(key_of("report", std::int64_t{rank})); });
    call.forget_earlier_calls();
    for (std::int64_t rank = 1; rank < call.me().world_size; ++rank) {
      call.set(key_of("plan", rank), planned.plan->plan_of(static_cast<std::uint32_t>(rank)));
      call.keep_alive();
    }
    planned.own = planned.plan->plan_of(0);
    decide_for(call);
    return planned;
  });
}

sharded::RankState state_of(const RankTable& table, const RankSaveJob& job) {
  sharded::RankState state({.rank = static_cast<std::uint32_t>(table.me.rank),
                            .world_size = static_cast<std::uint32_t>(table.me.world_size),
                            .replica = job.replica},
                           job.tree);
  for (const auto& [list, value] : job.own) {
    state.add_own(list, value);
  }
  return state;
}

// Step 3.
WrittenPart write_files(const sharded::RankFiles& files, PartPlace& place) {
  WrittenPart written;
  std::vector<std::string> digests;
  for (std::size_t i = 0; i < files.count(); ++i) {
    const dcp::DataPlan& plan = files.plan(i);
    std::string digest;
    place.write(
        {.name = files.name(i), .expected_bytes = plan.size(), .fill = [&](ObjectWrite& out) {
           Xxh3 hash;
           fill_object(plan, out, &hash);
           digest = hash.digest128();
         }});
    written.files.push_back(
        {.name = place.stored_name(files.name(i)), .bytes = plan.size(), .xxh3_128 = digest});
    digests.push_back(std::move(digest));
  }
  written.note = files.report(digests);
  return written;
}

// For step 4.
RankMetadata metadata_of(const GlobalPlan& plan, const std::vector<RankPart>& parts) {
  sharded::Reports reports;
  std::vector<std::vector<std::string>> names;
  for (const RankPart& part : parts) {
    reports.push_back(part.note);
    auto& of_rank = names.emplace_back();
    for (const ManifestFile& file : part.files) {
      of_rank.push_back(file.name);
    }
  }
  const std::shared_ptr<const dcp::MetadataContent> content =
      plan.content(reports, {.file_names = std::move(names), .save_id = {}});
  RankMetadata metadata;
  metadata.expected_bytes = dcp::metadata_bytes(*content);
  metadata.fill = [content](ByteSink& out) { dcp::write_metadata(*content, out); };
  return metadata;
}

}  // namespace

RankCommitReport save_over_ranks(RankTable& table, ObjectStore& store, const RankSaveJob& job) {
  std::optional<sharded::RankState> state;
  const auto kept = job.kept ? job.kept : std::make_shared<KeptPlan>();
  LivingStore living(store);
  const Planned planned =
      plan_over_ranks(table, fmt::format("planning {} on {} ranks", job.path, table.me.world_size),
                      *kept, [&](RollCall& call) {
                        living.join(call);
                        living.check(job.far);
                        state.emplace(state_of(table, job));
                        return describe(*state);
                      });
  RankCommitJob commit{.path = job.path, .overwrite = job.overwrite, .puts_aside = job.puts_aside};
  commit.write_part = [&](PartPlace& place) {
    return write_files(sharded::RankFiles(*state, planned.own, {.files = job.files}), place);
  };
  commit.metadata = [&](const std::vector<RankPart>& parts) {
    return metadata_of(*planned.plan, parts);
  };
  commit.point = job.point;
  commit.retry = job.far.retry;
  return commit_over_ranks(table, store, commit);
}

}  // namespace cairn

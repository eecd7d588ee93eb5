// How the ranks of a job save one checkpoint.
//
//  1. describe  Each says what it has of the state (sharded/rank_state.h). The names, which most
//               ranks have alike, are sent by those whose differ from rank 0's.
//  2. plan      Rank 0 plans who writes what (sharded/global_plan.h), and tells each. What cannot
//               be saved together is an error on all of them now, before the first byte.
//  3. write     Each writes its files by its plan, from the tensors' own memory, and reports where
//               in them what stands.
//  4. commit    What makes one checkpoint of them, or nothing (commit_over_ranks.cpp). `.metadata`
//               is made of all reports.
//
// 1 and 2 are a roll call of their own (consult.h), 3 and 4 the next one.
#include "checkpoint/ranks/save_over_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/plan/write_plan.h"
#include "checkpoint/ranks/consult.h"
#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/packed.h"
#include "checkpoint/sharded/rank_files.h"
#include "checkpoint/sharded/rank_state.h"
#include "core/xxh3.h"

namespace cairn {
namespace {

using sharded::Description;
using sharded::GlobalPlan;

std::string key_of(const char* what, std::int64_t rank) {
  return std::string(what) + "/" + std::to_string(rank);
}

// A rank's description as it travels; `names` only where they are not rank 0's.
std::string pack(const Description& own, bool with_names) {
  sharded::PackedWriter out;
  out.text(with_names ? own.names : "");
  out.text(own.parts);
  return out.take();
}

// Rank 0's: of all ranks. CorruptError.
std::optional<GlobalPlan> plan_for_all(RollCall& call, Description own) {
  std::vector<std::string> names = {std::move(own.names)};
  std::vector<std::string> parts = {std::move(own.parts)};
  for (std::int64_t rank = 1; rank < call.me().world_size; ++rank) {
    const std::string text = call.wait_for(key_of("report", rank));
    sharded::PackedReader in(text, "what a rank has of the state");
    const std::string_view its_names = in.text();
    if (!its_names.empty() && std::ranges::find(names, its_names) == names.end()) {
      names.emplace_back(its_names);
    }
    parts.emplace_back(in.text());
    in.expect_end();
  }
  return std::optional<GlobalPlan>(std::in_place, names, std::move(parts));
}

// Of one rank.
struct Planned {
  std::string own;                 // what it is to write
  std::optional<GlobalPlan> plan;  // of rank 0
};

// Steps 1 and 2.
Planned plan_over_ranks(RankTable& table, const std::string& what,
                        const std::function<Description()>& describe) {
  return consult(table, what, "planning its part", [&](RollCall& call) -> Planned {
    const Description own = describe();
    const std::string digest = sharded::digest_of_names(own.names);
    if (!call.leads()) {
      const bool is_as_rank_0 = call.wait_for("call") == digest;
      call.set(key_of("report", call.me().rank), pack(own, !is_as_rank_0));
      call.wait_for_decision();
      return {call.wait_for(key_of("plan", call.me().rank)), std::nullopt};
    }
    call.set("call", digest);
    Planned planned{.own = {}, .plan = plan_for_all(call, own)};
    call.all_have_come();
    for (std::int64_t rank = 1; rank < call.me().world_size; ++rank) {
      call.set(key_of("plan", rank), planned.plan->plan_of(static_cast<std::uint32_t>(rank)));
      call.move_on();
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

// Of step 4.
std::string metadata_of(const GlobalPlan& plan, const std::vector<RankPart>& parts) {
  std::vector<std::string> reports;
  std::vector<std::vector<std::string>> names;
  for (const RankPart& part : parts) {
    reports.push_back(part.note);
    auto& of_rank = names.emplace_back();
    for (const ManifestFile& file : part.files) {
      of_rank.push_back(file.name);
    }
  }
  return plan.metadata(reports, {.file_names = std::move(names), .save_id = {}});
}

}  // namespace

RankCommitReport save_over_ranks(RankTable& table, ObjectStore& store, const RankSaveJob& job) {
  std::optional<sharded::RankState> state;
  Planned planned = plan_over_ranks(
      table, fmt::format("planning {} on {} ranks", job.path, table.me.world_size), [&] {
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
  commit.retry = job.retry;
  return commit_over_ranks(table, store, commit);
}

}  // namespace cairn

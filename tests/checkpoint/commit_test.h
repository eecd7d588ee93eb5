// Saves of one checkpoint by the ranks of a simulated job.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/ranks/see_checkpoints.h"
#include "sim_parts.h"
#include "storage/local/local_store.h"
#include "testing/file_bytes.h"
#include "testing/sim_job.h"

namespace cairn::testing {

// The result of one rank: "ok", or the class of the error and its message. "" if the rank died.
struct SaveResult {
  std::string outcome;
  std::chrono::seconds took{};
};

class CommitTest : public ::testing::Test {
 protected:
  static inline const std::string kPath = "/run/ep0-ba7";

  CommitTest() { add_machines(1); }

  // Makes one save, by a job of `ranks` ranks.
  std::vector<SaveResult> save(std::int64_t ranks, std::vector<SimFault> faults = {}) {
    std::vector<SimFileSystem*> where;
    for (auto& disk : disks_)
      where.push_back(disk.get());
    SimJob job(fibers_, {.world_size = ranks,
                         .disks = where,
                         .machines = machines_,
                         .seed = ++seed_,
                         .faults = faults,
                         .is_hosted = is_hosted_});
    std::vector<SaveResult> heard(static_cast<std::size_t>(ranks));
    job.start([&](SimJob::Rank& rank) {
      const auto begin = fibers_.now();
      auto& mine = heard[static_cast<std::size_t>(rank.number())];
      mine.outcome = attempt(rank);
      mine.took = std::chrono::duration_cast<std::chrono::seconds>(fibers_.now() - begin);
    });
    fibers_.run();
    return heard;
  }

  std::string attempt(SimJob::Rank& rank) {
    if (before_) before_(rank);
    const SavedAs as = {.start = 0, .batch = 7, .world_size = rank.table.me.world_size};
    RankCommitJob job{.path = kPath, .overwrite = overwrite_, .puts_aside = puts_aside_};
    job.write_part = [&](PartPlace& place) {
      if (work_) work_(rank, place);
      return write_sample_part(place, as, rank.number());
    };
    job.metadata = [&](const std::vector<RankPart>& parts) { return sample_metadata(as, parts); };
    job.point = point_;
    try {
      const RankCommitReport report =
          commit_over_ranks(rank.table, store_ ? *store_ : *rank.store, job);
      return report.bytes > 0 && report.id.size() == 16 ? "ok" : "no report";
    } catch (const RankFailure& e) {
      return fmt::format("RankFailure of rank {}, errno {}: {}", e.rank(), e.status(), e.what());
    } catch (const AlreadyExistsError& e) {
      return std::string("AlreadyExistsError: ") + e.what();
    } catch (const UsageError& e) {
      return std::string("UsageError: ") + e.what();
    } catch (const CancelledError& e) {
      return std::string("CancelledError: ") + e.what();
    }
  }

  static std::vector<std::string> outcomes(const std::vector<SaveResult>& heard) {
    std::vector<std::string> all;
    for (const SaveResult& one : heard)
      all.push_back(one.outcome);
    return all;
  }

  // Expects that all living ranks got the same error, and soon.
  static void expect_one_error(const std::vector<SaveResult>& heard, const std::string& text) {
    std::string first;
    for (const SaveResult& one : heard) {
      if (one.outcome.empty()) continue;
      if (first.empty()) first = one.outcome;
      EXPECT_EQ(one.outcome, first);
      EXPECT_LT(one.took, std::chrono::seconds(10));
    }
    EXPECT_THAT(first, ::testing::HasSubstr(text));
  }

  std::string problem(std::size_t metadata_at = 0) {
    return problem_of(
        [&](const std::string& name) -> std::optional<std::string> {
          for (std::size_t i = name == ".metadata" ? metadata_at : 0; i < disks_.size(); ++i) {
            const std::string path = kPath + "/" + name;
            if (!disks_[i]->stat(path, true)) continue;
            return std::string(as_text(file_bytes(*disks_[i], path).view));
          }
          return std::nullopt;
        },
        7);
  }

  void add_machines(int count) {
    for (int i = 0; i < count; ++i) {
      disks_.push_back(std::make_unique<SimFileSystem>());
    }
  }

  // The id of the attempt that wrote a folder on a disk.
  std::string attempt_in(std::size_t disk, const std::string& folder) {
    const auto manifest = manifest_of(*local_store(*disks_[disk]), folder);
    return manifest ? manifest->attempt : "none";
  }

  // Plans that rank 0 dies after the other machines have published their parts.
  void fail_to_publish(std::int64_t ranks) {
    work_ = [](SimJob::Rank& rank, PartPlace&) {
      if (rank.number() != 0) return;
      rank.files->before_each([is_dead = false](FileCall call, std::uint64_t) mutable {
        is_dead = is_dead || call == FileCall::kRename;
        if (is_dead) throw SimulatedCrash{};  // NOLINT(hicpp-exception-baseclass)
      });
    };
    expect_one_error(save(ranks), "RankFailure of rank 0, errno 0");
    work_ = nullptr;
  }

  void expect_nothing_left() {
    for (auto& disk : disks_) {
      EXPECT_THAT(disk->list("/run"), ::testing::IsEmpty()) << disk->describe();
    }
  }

  std::uint64_t seed_ = 0;
  Fibers fibers_;
  std::vector<std::unique_ptr<SimFileSystem>> disks_;
  std::vector<std::string> machines_;  // As in SimJob.
  bool overwrite_ = false;
  bool puts_aside_ = false;
  bool is_hosted_ = true;
  std::function<void(SimJob::Rank&)> before_;            // Called before a rank begins.
  std::function<void(SimJob::Rank&, PartPlace&)> work_;  // Called before a rank writes.
  std::function<void()> point_;
  std::shared_ptr<ObjectStore> store_;  // Shared by all ranks, instead of the disks.
};

}  // namespace cairn::testing

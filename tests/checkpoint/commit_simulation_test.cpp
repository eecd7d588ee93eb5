// Jobs of several ranks in a simulation that follows from a seed. They save, die, hang, lose power,
// are cut off and start again. They run the unchanged protocol of commit_over_ranks.cpp and
// agree_over_ranks.cpp, on disks that lose unsynced data.
//
// One schedule is up to three starts of a job of 2 to 5 ranks, on 1 or 2 machines or in an object
// store. Each start has a different number of ranks, and up to three faults at any step of any
// rank. The invariants:
//
//  1. Every folder that has a `.metadata` under its final name is whole and of one attempt. The
//     test checks this after each publication, and on the disks after all ranks have died.
//  2. The next start finds the last checkpoint that any rank was told of, or a later one.
//  3. No rank is told that a save succeeded while another is told that it failed. All ranks that
//     are told a reason are told the same reason. A single fault of one rank is reported as a fault
//     of that rank.
//  4. Every commit ends within 10 s of the last fault.
//  5. All ranks of a start resume from the same checkpoint, or have the same error.
//  6. After remove_leftovers(), only checkpoints are left.
//  7. Without faults, every commit succeeds.
//  8. No part on another machine says that its checkpoint was published if the checkpoint was not.
//
// Proof that the simulation notices errors: it found each of these wrong changes to the protocol.
// The numbers are about how many schedules that took.
//
//   - `.metadata` written before the rest (1), a report sent before the part is written (1),
//     success reported before the checkpoint is published (13), a part marked before the checkpoint
//     is published (1).
//   - Files not synced (1), the attempt's folder not synced (3), its parent not synced (13).
//   - No wait for all reports (1), no signs of life (1), rank 0 ends before all ranks know the
//     result (1).
//   - A decision overwritten instead of exchanged (1260), each rank resuming from its own choice
//     (85).
//
// If all attempts had one id, AProcessOfAnEarlierAttemptDoesNotWriteIntoThisOne in
// commit_over_ranks_test.cpp would fail. The check for rivals exists because seeds of this test
// found what happens without that check.
//
// CI runs a few seconds' worth of schedules. CAIRN_SIMULATED_SCHEDULES=100000 runs that many
// schedules, beginning with the seed CAIRN_SIMULATED_SEED.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>

#include "cairn/error.h"

#include "checkpoint/ranks/agree_over_ranks.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "io/durable/atomic_file.h"
#include "sim_parts.h"
#include "storage/local/local_store.h"
#include "testing/file_bytes.h"
#include "testing/sim_job.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Fibers;
using testing::SavedAs;
using testing::SimFault;
using testing::SimFileSystem;
using testing::SimJob;
using testing::SimulatedCrash;

const std::string kSimulatedRun = "/run";
constexpr int kStarts = 3;

std::string simulated_name(std::int64_t batch) { return "ba" + std::to_string(batch); }

class Schedule {
 public:
  explicit Schedule(std::uint64_t seed) : random_(seed) {
    machines_ = draw(4) == 0 ? 2 : 1;
    if (machines_ == 1 && draw(5) == 0) shared_ = memory_store();
    for (std::int64_t i = 0; i < machines_; ++i)
      disks_.push_back(std::make_unique<SimFileSystem>());
  }

  // Runs a schedule. Returns the violation that it found, or "".
  std::string run() {
    for (start_ = 0; start_ < kStarts && problem_.empty(); ++start_) {
      run_start();
      if (problem_.empty()) end_start();
    }
    for (auto& job : jobs_)
      job->kill();
    fibers_.run();
    return problem_;
  }
  std::uint64_t saves() const { return saves_; }
  std::uint64_t failures() const { return failures_; }

 private:
  struct Outcome {
    enum Kind { kDied, kSaved, kRefused, kUnknown } kind = kDied;
    std::string text;
  };

  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  bool chance(std::uint64_t one_in) { return draw(one_in) == 0; }

  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = fmt::format("start {}: {}", start_, what);
  }

  std::vector<SimFault> draw_faults(std::int64_t ranks) {
    constexpr std::array<int, 4> kErrors = {ENOSPC, EIO, EDQUOT, EACCES};
    std::vector<SimFault> faults;
    const std::uint64_t count = std::min<std::uint64_t>(draw(5), 3);
    for (std::uint64_t i = 0; i < count; ++i) {
      SimFault fault;
      fault.kind = static_cast<SimFault::Kind>(draw(5));
      fault.rank = static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(ranks)));
      const bool is_call = fault.kind == SimFault::Kind::kFails;
      fault.step = 1 + draw(is_call ? 40 : chance(3) ? 400 : 120);
      fault.time = milliseconds(draw(chance(2) ? 6000 : 60000));
      fault.error = kErrors[draw(kErrors.size())];
      faults.push_back(fault);
    }
    return faults;
  }

  void run_start() {
    const auto ranks = static_cast<std::int64_t>(
        std::max<std::uint64_t>(2 + draw(4), static_cast<std::uint64_t>(machines_)));
    faults_ = draw_faults(ranks);
    is_lossy_ = chance(4);
    is_slow_ = chance(3);
    is_haunted_ = std::ranges::any_of(jobs_, [](const auto& job) {
      return std::ranges::any_of(job->ranks(), [](const auto& rank) { return !rank->has_ended; });
    });
    std::vector<SimFileSystem*> where;
    for (auto& disk : disks_)
      where.push_back(disk.get());
    jobs_.push_back(
        std::make_unique<SimJob>(fibers_, testing::SimJobOptions{.world_size = ranks,
                                                                 .disks = where,
                                                                 .shared = shared_,
                                                                 .seed = random_(),
                                                                 .faults = faults_,
                                                                 .is_hosted = chance(2),
                                                                 .loss = is_lossy_ ? 0.02 : 0,
                                                                 .stutter = chance(3) ? 0.02 : 0}));
    is_doubtful_ = false;
    outcomes_.clear();
    agreed_.clear();
    SimJob& job = *jobs_.back();
    job.after_rename = [this] { check_visible(); };
    job.start([this, &job, start = start_](SimJob::Rank& rank) { live(job, rank, start); });
    fibers_.run([&] { return job.is_over(); });
    check_outcomes(job);
  }

  // --- The actions of a rank ---------------------------------------------------------------------

  void live(SimJob& job, SimJob::Rank& rank, int start) {
    const auto found = go_on(job, rank, start);
    if (!found) return;
    for (std::int64_t batch = *found + 1; batch <= *found + 3; ++batch) {
      const SavedAs as = {.start = start, .batch = batch, .world_size = rank.table.me.world_size};
      const Outcome outcome = save(job, rank, as);
      if (start != start_) return;  // The job started again while this rank hung.
      outcomes_[batch][rank.number()] = outcome;
      if (outcome.kind == Outcome::kSaved) {
        told_ = std::max(told_, batch);
        latest_ = std::max(latest_, batch);
        retire(rank, batch);
      }
      is_doubtful_ = is_doubtful_ || outcome.kind == Outcome::kUnknown;
      if (outcome.text.find("cannot be reached") != std::string::npos) return;
    }
  }

  // Returns the batch to resume from, or nullopt if the rank ends.
  std::optional<std::int64_t> go_on(SimJob& job, SimJob::Rank& rank, int start) {
    Outcome outcome;
    std::int64_t batch = 0;
    const int hangs = rank.hangs;
    const auto begin = fibers_.now();
    try {
      const auto agreed = agree_over_ranks(
          rank.table, {.what = "resuming",
                       .look = [&](const std::function<void()>&) { return look(*rank.store); }});
      const AgreedCheckpoint* const furthest = find_furthest(agreed);
      if (furthest != nullptr) batch = furthest->order.at(0);
      outcome = {Outcome::kSaved, fmt::format("{}", batch)};
    } catch (const Error& e) {
      outcome = {Outcome::kRefused, e.what()};
    }
    if (start != start_) return std::nullopt;
    check_time(job, rank, begin, hangs);
    agreed_[rank.number()] = outcome;
    if (outcome.kind != Outcome::kSaved) return std::nullopt;
    if (batch < told_at_start_) {
      fail(fmt::format("goes on from {}, and was told of {}", batch, told_at_start_));
    }
    return batch;
  }

  // The checkpoints of which this rank's machine has a part.
  std::vector<SeenCheckpoint> look(ObjectStore& store) const {
    std::vector<SeenCheckpoint> seen;
    if (!store.stat(kSimulatedRun)) return seen;
    for (std::int64_t batch = latest_ + 4; batch > 0; --batch) {
      const std::string path = kSimulatedRun + "/" + simulated_name(batch);
      auto one = see_checkpoint(store, path, simulated_name(batch));
      if (!one) continue;
      one->order = {batch};
      seen.push_back(std::move(*one));
    }
    return seen;
  }

  Outcome save(SimJob& job, SimJob::Rank& rank, const SavedAs& as) {
    RankCommitJob todo{.path = kSimulatedRun + "/" + simulated_name(as.batch), .puts_aside = true};
    const bool is_slow = is_slow_ && rank.number() == as.batch % 3;
    todo.write_part = [&](PartPlace& place) {
      for (int block = 0; is_slow && block < 15; ++block) {
        rank.table.meeting->pause(seconds(1));
        place.keep_alive();
      }
      return testing::write_sample_part(place, as, rank.number());
    };
    todo.retry.random = [] { return 0.5; };
    todo.metadata = [&](const std::vector<RankPart>& parts) {
      return testing::sample_metadata(as, parts);
    };
    const int hangs = rank.hangs;
    const auto begin = fibers_.now() + seconds(is_slow ? 20 : 0);
    ++saves_;
    Outcome outcome;
    try {
      commit_over_ranks(rank.table, *rank.store, todo);
      outcome = {Outcome::kSaved, ""};
    } catch (const Error& e) {
      const std::string text = e.what();
      const bool is_known = text.find("is not known") == std::string::npos;
      outcome = {is_known ? Outcome::kRefused : Outcome::kUnknown, text};
      ++failures_;
    }
    check_time(job, rank, begin, hangs);
    return outcome;
  }

  // Keeps only the newest checkpoint.
  static void retire(SimJob::Rank& rank, std::int64_t batch) {
    if (rank.table.me.machine_leader != rank.number()) return;
    for (std::int64_t old = batch - 1; old > 0 && old > batch - 6; --old) {
      try {
        rank.store->remove_folder(kSimulatedRun + "/" + simulated_name(old));
      } catch (const Error&) {
        return;
      }
    }
  }

  // --- The invariants ----------------------------------------------------------------------------

  void check_time(SimJob& job, const SimJob::Rank& rank, Fibers::Time begin, int hangs) {
    if (rank.hangs != hangs) return;
    begin = std::max(begin, job.last_fault());
    // The other ranks wait while the rank that was cut off comes back.
    for (const auto& other : job.ranks()) {
      if (fibers_.now() < other->cut_off_until + seconds(10)) return;
    }
    // The time that a slow rank takes to write its part.
    const auto slow = seconds(is_slow_ ? 20 : 0);
    const auto took = fibers_.now() - begin;
    if (took > seconds(10) + slow) {
      fail(fmt::format("rank {} waited for {} s", rank.number(),
                       std::chrono::duration_cast<seconds>(took).count()));
    }
  }

  std::optional<std::string> read(const std::string& name, std::int64_t batch) const {
    if (shared_) {
      const std::string path = kSimulatedRun + "/" + simulated_name(batch) + "/" + name;
      if (!shared_->stat(path)) return std::nullopt;
      const auto source = shared_->open(path);
      return std::string(as_text(source->view(0, source->size()).view));
    }
    for (const auto& disk : disks_) {
      const std::string path = join_path(kSimulatedRun, simulated_name(batch)) + "/" + name;
      if (!disk->stat(path, true)) continue;
      return std::string(as_text(testing::file_bytes(*disk, path).view));
    }
    return std::nullopt;
  }

  // 1. Returns the newest visible checkpoint, or 0.
  std::int64_t check_visible() {
    std::int64_t newest = 0;
    // Each machine removes superfluous checkpoints on its own. In an object store a removed
    // checkpoint may reappear without its parts (docs/distributed.md).
    const std::int64_t last = machines_ > 1 || shared_ ? told_ - 1 : told_ - 6;
    for (std::int64_t batch = latest_ + 4; batch > 0 && batch > last; --batch) {
      check_marks(batch);
      if (!read(".metadata", batch)) continue;
      const std::string problem =
          testing::problem_of([&](const std::string& name) { return read(name, batch); }, batch);
      if (!problem.empty()) fail(fmt::format("torn: {}: {}", simulated_name(batch), problem));
      check_names(batch);
      newest = std::max(newest, batch);
    }
    return newest;
  }

  // 8. Superfluous checkpoints are not checked, because each machine removes them on its own.
  void check_marks(std::int64_t batch) {
    const std::string path = kSimulatedRun + "/" + simulated_name(batch);
    const auto attempt_on = [&](SimFileSystem& disk) {
      const auto manifest = manifest_of(*local_store(disk), path);
      return manifest ? manifest->attempt : "";
    };
    for (std::size_t i = 1; i < disks_.size() && machines_ > 1 && !shared_; ++i) {
      const std::string attempt = attempt_on(*disks_[i]);
      if (!is_marked(*local_store(*disks_[i]), path, attempt)) continue;
      const bool is_there = disks_[0]->stat(path + "/.metadata", true).has_value();
      if (!is_there || attempt_on(*disks_[0]) != attempt) {
        fail("marked, and not published: " + simulated_name(batch));
      }
    }
  }

  // The checkpoint's folder has no files of other attempts.
  void check_names(std::int64_t batch) {
    if (shared_) return;  // The next commit removes leftovers.
    const std::string metadata = read(".metadata", batch).value_or("");
    for (const auto& disk : disks_) {
      for (const std::string& name : disk->list(kSimulatedRun + "/" + simulated_name(batch))) {
        const bool is_known = metadata.find(" " + name + "\n") != std::string::npos;
        if (!is_known && !name.starts_with('.'))
          fail("mixed: " + simulated_name(batch) + "/" + name);
      }
      if (machines_ > 1) return;  // Only rank 0's machine has `.metadata`.
    }
  }

  // 3, 5 and 7.
  void check_outcomes(const SimJob& job) {
    check_agreement("going on", agreed_);
    for (const auto& [batch, of_ranks] : outcomes_) {
      check_agreement(simulated_name(batch), of_ranks);
    }
    if (!faults_.empty() || is_lossy_ || is_haunted_) return;
    const bool are_all = std::ranges::all_of(outcomes_, [&](const auto& save) {
      return save.second.size() == job_size(job) &&
             std::ranges::all_of(
                 save.second, [](const auto& one) { return one.second.kind == Outcome::kSaved; });
    });
    if (outcomes_.size() != 3 || !are_all) fail("nothing went wrong, and not all is saved");
  }
  static std::size_t job_size(const SimJob& job) { return const_cast<SimJob&>(job).ranks().size(); }

  void check_agreement(const std::string& what, const std::map<std::int64_t, Outcome>& of_ranks) {
    std::set<std::string> told;
    for (const auto& [rank, outcome] : of_ranks) {
      if (outcome.kind == Outcome::kSaved) told.insert("saved " + outcome.text);
      const bool is_own = outcome.text.find("cannot be reached") != std::string::npos;
      if (outcome.kind == Outcome::kRefused && !is_own) told.insert("refused: " + outcome.text);
    }
    if (told.size() > 1) fail(fmt::format("{}: told {}", what, fmt::join(told, " AND ")));
    if (told.empty() || faults_.size() != 1 || is_lossy_ || is_doubtful_ || is_haunted_) return;
    const SimFault& fault = faults_[0];
    const bool is_of_all = fault.kind == SimFault::Kind::kEndAll;
    const std::string name = fmt::format("rank {}", fault.rank);
    if (told.begin()->starts_with("refused") && !is_of_all &&
        told.begin()->find(name) == std::string::npos) {
      fail(fmt::format("{}: {} was at fault, and all are told {}", what, name, *told.begin()));
    }
  }

  // The machines lose power, or all processes are killed, or some hang and come back later.
  void end_start() {
    check_visible();
    const bool loses_power = chance(2);
    if (loses_power || !chance(3)) jobs_.back()->kill();
    if (loses_power) {
      for (auto& job : jobs_)
        job->kill();
      fibers_.run();
    }
    for (auto& disk : disks_) {
      // Without a power loss, the next processes find the files as these processes left them.
      if (!loses_power) continue;
      disk = disk->after_power_loss([this](std::uint64_t below) { return draw(below); });
    }
    const std::int64_t newest = check_visible();
    if (newest < told_) fail(fmt::format("told of {}, and found {}", told_, newest));
    latest_ = std::max(told_, newest);
    told_at_start_ = newest;
    for (auto& disk : disks_) {
      if (disk->stat(kSimulatedRun, true)) local_store(*disk)->remove_leftovers(kSimulatedRun);
    }
    if (!loses_power) return;
    for (auto& disk : disks_) {
      if (!disk->stat(kSimulatedRun, true)) continue;
      for (const std::string& name : disk->list(kSimulatedRun)) {
        if (name.starts_with(".")) fail("left behind: " + name);
      }
    }
  }

  std::mt19937_64 random_;
  Fibers fibers_;
  std::int64_t machines_ = 1;
  std::vector<std::unique_ptr<SimFileSystem>> disks_;
  std::shared_ptr<ObjectStore> shared_;  // Used instead of the disks if it is set.
  std::vector<std::unique_ptr<SimJob>> jobs_;
  int start_ = 0;
  std::vector<SimFault> faults_;
  bool is_lossy_ = false;
  bool is_slow_ = false;      // One rank of each save is slow.
  bool is_haunted_ = false;   // Processes of an earlier start hung and are still alive.
  bool is_doubtful_ = false;  // A rank does not know whether a save succeeded.
  std::map<std::int64_t, std::map<std::int64_t, Outcome>> outcomes_;  // By batch and rank.
  std::map<std::int64_t, Outcome> agreed_;
  std::int64_t told_ = 0;    // The last checkpoint that a rank was told was saved.
  std::int64_t latest_ = 0;  // The last checkpoint that was saved or found.
  std::int64_t told_at_start_ = 0;
  std::uint64_t saves_ = 0;
  std::uint64_t failures_ = 0;
  std::string problem_;
};

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::stoull(text) : otherwise;
}

TEST(CommitSimulationTest, WhateverGoesWrongNothingIsTornLostOrDisagreedOn) {
  const std::uint64_t first = number_in("CAIRN_SIMULATED_SEED", 1);
  const std::uint64_t count = number_in("CAIRN_SIMULATED_SCHEDULES", 1000);
  std::uint64_t saves = 0;
  std::uint64_t failures = 0;
  int problems = 0;
  for (std::uint64_t seed = first; seed < first + count && problems < 3; ++seed) {
    Schedule schedule(seed);
    const std::string problem = schedule.run();
    EXPECT_EQ(problem, "") << "CAIRN_SIMULATED_SCHEDULES=1 CAIRN_SIMULATED_SEED=" << seed;
    if (!problem.empty()) ++problems;
    saves += schedule.saves();
    failures += schedule.failures();
  }
  RecordProperty("saves", std::to_string(saves));
  RecordProperty("failures", std::to_string(failures));
  if (count < 100) return;
  EXPECT_GT(failures, saves / 20) << "too little goes wrong";
  EXPECT_GT(saves, 2 * failures) << "too little goes well";
}

}  // namespace
}  // namespace cairn

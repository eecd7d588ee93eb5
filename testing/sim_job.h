// A job of several ranks in a simulation: fibers in place of processes, a meeting place in memory,
// and disks that lose power. Everything that happens follows from the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "checkpoint/ranks/roll_call.h"
#include "testing/faulty_file_system.h"
#include "testing/fibers.h"
#include "testing/sim_file_system.h"

namespace cairn::testing {

// The values that the ranks of a job tell each other. `is_gone`: the process that hosted the
// meeting place died.
struct SimPlace {
  std::map<std::string, std::string> values;
  bool is_gone = false;
};

// A fault at the n-th step of a rank, counted from 1. A step is a call of a file system or of the
// meeting place.
struct SimFault {
  enum class Kind : std::uint8_t {
    kCrash,   // SIGKILL
    kHang,    // Does nothing for `time`, then continues.
    kFails,   // A call of the file system or the store fails. `step` counts only these.
    kCutOff,  // For `time`, no call reaches the meeting place.
    kEndAll,  // SIGKILL of all ranks, or a power loss.
  };
  Kind kind = Kind::kCrash;
  std::int64_t rank = 0;
  std::uint64_t step = 1;
  std::chrono::milliseconds time{};
  int error = 0;
};

struct SimJobOptions {
  std::int64_t world_size = 2;
  // The machines' disks; ranks are spread over them in order.
  std::vector<SimFileSystem*> disks = {};
  std::vector<std::string> machines = {};  // Names of the machines. Empty: they are numbered.
  // If set, all ranks write to this store instead of to the disks.
  std::shared_ptr<ObjectStore> shared = nullptr;
  std::uint64_t seed = 1;
  std::vector<SimFault> faults = {};
  bool is_hosted = true;  // The meeting place outlives rank 0.
  // Share of calls of the meeting place that are lost; half of the lost calls are not done.
  double loss = 0;
  double stutter = 0;  // Share of steps that take up to half a second.
};

class SimJob {
 public:
  struct Rank {
    RankTable table;
    std::unique_ptr<FaultyFileSystem> files;
    std::shared_ptr<ObjectStore> store;
    std::uint64_t steps = 0;
    bool is_dead = false;
    int hangs = 0;
    bool is_hanging = false;
    bool has_ended = false;
    Meeting::Time cut_off_until = {};
    std::int64_t number() const { return table.me.rank; }
  };
  using Body = std::function<void(Rank&)>;

  SimJob(Fibers& fibers, SimJobOptions options);
  // Spawns all ranks. `body` must catch what it expects; SimulatedCrash ends it quietly. The job
  // must outlive the fibers.
  void start(const Body& body);
  // Whether every rank has ended or hangs.
  bool is_over() const;
  // Every rank that has not ended dies at its next step.
  void kill();

  Fibers& fibers() { return fibers_; }
  SimPlace& place() { return place_; }
  std::vector<std::unique_ptr<Rank>>& ranks() { return ranks_; }
  std::uint64_t random(std::uint64_t below) { return below == 0 ? 0 : random_() % below; }
  // When the last fault began, or a rank came back.
  Meeting::Time last_fault() const { return last_fault_; }
  // Called after each step that changed which names exist.
  std::function<void()> after_rename = nullptr;

  // One step of a rank: time passes, other ranks run, and the faults planned for this step happen.
  void step(Rank& rank);
  // A step for a call of the meeting place. Throws MeetingError if the call is lost.
  void call(Rank& rank);
  bool loses_answer();

 private:
  std::shared_ptr<ObjectStore> watched_store(Rank& rank);
  void apply_fault(Rank& rank, const SimFault& fault);

  Fibers& fibers_;
  const SimJobOptions options_;
  std::mt19937_64 random_;
  SimPlace place_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Meeting::Time last_fault_ = {};
};

}  // namespace cairn::testing

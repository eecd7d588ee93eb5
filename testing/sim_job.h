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

// What all ranks of a job tell each other. `is_gone`: who hosted it died.
struct SimPlace {
  std::map<std::string, std::string> values;
  bool is_gone = false;
};

// Something that goes wrong at the n-th step of a rank (a call of a file system, or of the meeting
// place), counted from 1.
struct SimFault {
  enum class Kind : std::uint8_t {
    kCrash,   // SIGKILL
    kHang,    // nothing for `time`, then it goes on
    kFails,   // a call of the file system, or the store, fails; `step` counts those alone
    kCutOff,  // no call reaches the meeting place for `time`
    kEndAll,  // SIGKILL of all ranks, or their power
  };
  Kind kind = Kind::kCrash;
  std::int64_t rank = 0;
  std::uint64_t step = 1;
  std::chrono::milliseconds time{};
  int error = 0;
};

struct SimJobOptions {
  std::int64_t world_size = 2;
  std::vector<SimFileSystem*> disks = {};  // of the machines; ranks are spread over them in order
  std::vector<std::string> machines = {};  // what those are called; empty: by their numbers
  std::shared_ptr<ObjectStore> shared = nullptr;  // all ranks write there, and not on the disks
  std::uint64_t seed = 1;
  std::vector<SimFault> faults = {};
  bool is_hosted = true;  // the meeting place outlives rank 0
  double loss = 0;        // of calls of the meeting place: half of them undone
  double stutter = 0;     // of steps that take up to half a second
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
  // No rank moves any more, but for those that hang.
  bool is_over() const;
  // Whoever has not ended dies at its next step.
  void kill();

  Fibers& fibers() { return fibers_; }
  SimPlace& place() { return place_; }
  std::vector<std::unique_ptr<Rank>>& ranks() { return ranks_; }
  std::uint64_t random(std::uint64_t below) { return below == 0 ? 0 : random_() % below; }
  // When something last began to go wrong, or a rank came back.
  Meeting::Time last_fault() const { return last_fault_; }
  // Called behind each step that changed what names there are.
  std::function<void()> behind_rename = nullptr;

  // One step of a rank: time passes, others go on, and what is to happen to it does.
  void step(Rank& rank);
  // The same of a call of the meeting place; throws MeetingError for one that does not arrive.
  void call(Rank& rank);
  bool loses_answer();

 private:
  std::shared_ptr<ObjectStore> watched_store(Rank& rank);
  void suffer(Rank& rank, const SimFault& fault);

  Fibers& fibers_;
  const SimJobOptions options_;
  std::mt19937_64 random_;
  SimPlace place_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Meeting::Time last_fault_ = {};
};

}  // namespace cairn::testing

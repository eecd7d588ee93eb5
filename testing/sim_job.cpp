#include "testing/sim_job.h"

#include <algorithm>
#include <utility>

#include "io/file_error.h"
#include "storage/local/local_store.h"
#include "testing/watched_store.h"

namespace cairn::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class SimMeeting final : public Meeting {
 public:
  SimMeeting(SimJob& job, std::size_t rank) : job_(job), rank_(rank) {}

  void set(const std::string& key, const std::string& value) override {
    const auto act = [&] { values()[key] = value; };
    call(act);
  }
  std::optional<std::string> find(const std::string& key) override {
    std::optional<std::string> found;
    call([&] {
      const auto there = values().find(key);
      found = there == values().end() ? std::nullopt : std::optional(there->second);
    });
    return found;
  }
  std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                      const std::string& to) override {
    std::optional<std::string> stands;
    call([&] {
      const auto there = values().find(key);
      if (there == values().end()) return;
      if (there->second == from) there->second = to;
      stands = there->second;
    });
    return stands;
  }
  void remove(const std::string& key) override {
    call([&] { values().erase(key); });
  }
  Time now() override { return job_.fibers().now(); }
  void pause(milliseconds time) override {
    job_.fibers().pause(time);
    job_.step(*job_.ranks()[rank_]);
  }

 private:
  std::map<std::string, std::string>& values() { return job_.place().values; }

  template <class Act>
  void call(const Act& act) {
    job_.call(*job_.ranks()[rank_]);
    act();
    if (job_.loses_answer()) throw MeetingError("the answer was lost");
  }

  SimJob& job_;
  const std::size_t rank_;
};

// Writes the meeting's first values, before faults can occur.
class FaultlessMeeting final : public Meeting {
 public:
  explicit FaultlessMeeting(std::map<std::string, std::string>& values) : values_(values) {}
  void set(const std::string& key, const std::string& value) override { values_[key] = value; }
  std::optional<std::string> find(const std::string&) override { return std::nullopt; }
  std::optional<std::string> exchange(const std::string&, const std::string&,
                                      const std::string&) override {
    return std::nullopt;
  }
  void remove(const std::string&) override {}

 private:
  std::map<std::string, std::string>& values_;
};

}  // namespace

SimJob::SimJob(Fibers& fibers, SimJobOptions options)
    : fibers_(fibers), options_(std::move(options)), random_(options_.seed) {
  const auto machines = static_cast<std::int64_t>(options_.disks.size());
  const auto machine_of = [&](std::int64_t rank) { return rank * machines / options_.world_size; };
  for (std::int64_t number = 0; number < options_.world_size; ++number) {
    auto rank = std::make_unique<Rank>();
    std::int64_t leader = number;
    while (leader > 0 && machine_of(leader - 1) == machine_of(number)) {
      --leader;
    }
    const auto machine = static_cast<std::size_t>(machine_of(number));
    rank->table.me = {.rank = number,
                      .world_size = options_.world_size,
                      .machine_leader = leader,
                      .machine = options_.machines.empty() ? std::to_string(machine)
                                                           : options_.machines[machine]};
    rank->table.meeting = std::make_shared<SimMeeting>(*this, ranks_.size());
    rank->table.patience.longest_poll = milliseconds(200);  // Fewer steps, so more schedules.
    rank->table.draw_id = [this] {
      std::string digits;
      for (int i = 0; i < 16; ++i) {
        digits += "0123456789abcdef"[random(16)];
      }
      return digits;
    };
    rank->files = std::make_unique<FaultyFileSystem>(
        *options_.disks[static_cast<std::size_t>(machine_of(number))]);
    rank->files->before_each([this, raw = rank.get()](FileCall kind, std::uint64_t) {
      step(*raw);
      if (after_rename && kind == FileCall::kSyncFolder) after_rename();
    });
    for (const SimFault& fault : options_.faults) {
      if (fault.kind != SimFault::Kind::kFails || fault.rank != number) continue;
      rank->files->fail(fault.step, fault.error);
    }
    rank->store = options_.shared ? watched_store(*rank) : local_store(*rank->files);
    ranks_.push_back(std::move(rank));
  }
  FaultlessMeeting opening(place_.values);
  open_table(opening);
}

// Each call of the store is a step.
std::shared_ptr<ObjectStore> SimJob::watched_store(Rank& rank) {
  const auto calls = std::make_shared<std::uint64_t>(0);
  const auto before = [this, &rank, calls](StoreCall, const std::string& name) {
    step(rank);
    ++*calls;
    for (const SimFault& fault : options_.faults) {
      const bool is_this = fault.kind == SimFault::Kind::kFails && fault.rank == rank.number();
      if (is_this && fault.step == *calls) throw_storage_error(fault.error, "injected: " + name);
    }
  };
  const auto after = [this](StoreCall call, const std::string&) {
    if (after_rename && call == StoreCall::kCommit) after_rename();
  };
  return std::make_shared<WatchedStore>(options_.shared,
                                        StoreHooks{.before = before, .after = after});
}

void SimJob::start(const Body& body) {
  for (const auto& rank : ranks_) {
    fibers_.spawn([this, body, raw = rank.get()] {
      try {
        fibers_.pause(microseconds(random(20000)));
        body(*raw);
      } catch (const SimulatedCrash&) {
        raw->is_dead = true;
      }
      raw->has_ended = true;
      if (raw->number() == 0 && !options_.is_hosted) {
        place_.is_gone = true;
        last_fault_ = fibers_.now();
      }
    });
  }
}

bool SimJob::is_over() const {
  return std::ranges::all_of(ranks_,
                             [](const auto& rank) { return rank->has_ended || rank->is_hanging; });
}

void SimJob::kill() {
  for (const auto& rank : ranks_) {
    rank->is_dead = true;
  }
  place_.is_gone = true;
}

bool SimJob::loses_answer() {
  return options_.loss > 0 && std::uniform_real_distribution<>()(random_) < options_.loss / 2;
}

void SimJob::call(Rank& rank) {
  step(rank);
  const bool is_lost =
      options_.loss > 0 && std::uniform_real_distribution<>()(random_) < options_.loss / 2;
  const bool is_cut_off = fibers_.now() < rank.cut_off_until;
  if (place_.is_gone || is_lost || is_cut_off) {
    fibers_.pause(milliseconds(is_cut_off ? 500 : 1));
    step(rank);
    throw MeetingError(place_.is_gone ? "connection reset by peer" : "no answer");
  }
}

void SimJob::step(Rank& rank) {
  if (rank.is_dead) throw SimulatedCrash{};
  ++rank.steps;
  const bool is_long =
      options_.stutter > 0 && std::uniform_real_distribution<>()(random_) < options_.stutter;
  fibers_.pause(is_long ? milliseconds(random(500)) : microseconds(random(300)));
  if (rank.is_dead) throw SimulatedCrash{};
  for (const SimFault& fault : options_.faults) {
    if (fault.rank == rank.number() && fault.step == rank.steps) apply_fault(rank, fault);
  }
}

void SimJob::apply_fault(Rank& rank, const SimFault& fault) {
  if (fault.kind == SimFault::Kind::kFails) return;  // The file system handles it.
  last_fault_ = fibers_.now();
  switch (fault.kind) {
    case SimFault::Kind::kCrash:
      rank.is_dead = true;
      if (rank.number() == 0 && !options_.is_hosted) place_.is_gone = true;
      throw SimulatedCrash{};
    case SimFault::Kind::kEndAll:
      kill();
      throw SimulatedCrash{};
    case SimFault::Kind::kHang:
      ++rank.hangs;
      rank.is_hanging = true;
      fibers_.pause(fault.time);
      rank.is_hanging = false;
      last_fault_ = fibers_.now();
      if (rank.is_dead) throw SimulatedCrash{};
      return;
    case SimFault::Kind::kCutOff:
      rank.cut_off_until = fibers_.now() + fault.time;
      return;
    case SimFault::Kind::kFails:
      return;
  }
}

}  // namespace cairn::testing

// The processes of a job, connected.
//
//  1. All ranks meet in a store, c10d's TCPStore: rank 0 listens at MASTER_ADDR:MASTER_PORT, or
//     torchrun's agent does. On one machine rank 0 listens at 127.0.0.1. Rank 0 writes the id of
//     this job: the launcher's id, or one that rank 0 makes. A rank of another job ends with an
//     error before it writes anything. Every other rank of this job writes its presence under the
//     job's id, and waits for all ranks.
//  2. Collectives go through Gloo, which connects every rank with every other. When a process ends,
//     its connections break, so the other processes know at once. Tensors of GPUs go through NCCL
//     if it is available (Channel). Tensors of the host go through MPI if the user says so. NCCL
//     and MPI are connected when they are first used.
//  3. Collectives are numbered. A rank that waits for long writes its number into the store
//     (StatusReporter). So every rank can find out which ranks have come and which have not
//     (LivenessWatch). LivenessWatch uses a second connection to the store, since a call on the
//     first may be waiting. The second connection is opened at the beginning, since libtorch 1.13
//     aborts a process that opens a connection while rank 0 dies. (libtorch's thread for callbacks
//     throws when the connection is reset.)
//  4. This class keeps the time limits, since Gloo's own limits cannot be extended. After `timeout`
//     a rank looks for missing ranks. If a missing rank says that it does long work (LongWork), the
//     limit starts again. While works on a device run, the rank checks every second whether a
//     process is gone, since NCCL need not notice.
//  5. After a failure, a rank writes its own number and looks for the numbers of all others for a
//     while. Its error names the ranks with lower numbers. The first such list of ranks is stored,
//     and all ranks use it.
//  6. After a failure the group is unusable: works that Gloo still runs cannot be cancelled.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cairn/dist/dist.h"

#include "checkpoint/names/launch.h"
#include "dist/channel.h"
#include "dist/liveness/liveness_watch.h"
#include "dist/liveness/status_reporter.h"
#include "io/machine.h"

namespace cairn::dist {

class RankTables;
class StoreMeeting;

class Group {
 public:
  // Steps 1 and 2. Throws DistError, which names the ranks that did not come.
  Group(Launch launch, std::chrono::milliseconds timeout);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const Launch& launch() const { return launch_; }
  Backend& backend() const { return *backend_; }
  // The channel of all ranks for tensors on `device`. All ranks must call it together, each with
  // its own device of one kind. Throws DistError.
  const Channel& channel(at::Device device);
  // Connects some of the ranks, including this one, in the order given. All ranks of the job must
  // call it in the same order, each with its own set of ranks; `name` distinguishes sets. If the
  // set is all ranks, returns the whole group's channel. If it is this rank alone, returns a
  // channel without a backend. Throws DistError.
  Channel connect_some(const std::string& name, const std::vector<std::int64_t>& ranks,
                       at::Device device);

  // Runs something that all ranks do together: `act()` begins it, and calls wait(). `what` is for
  // messages.
  template <class Act>
  void run_collective(const std::string& what, Act act) {
    begin(what);
    try {
      act();
    } catch (const Error&) {  // On this rank alone.
      reporter_->end_waiting();
      throw;
    } catch (const std::exception& error) {
      fail(what, error.what());
    }
    reporter_->end_waiting();
  }

  // A connection to the meeting place of that name, where ranks exchange messages outside
  // collectives. It has its own connection, so it never waits for other uses.
  std::shared_ptr<StoreMeeting> meet_others(const std::string& name);
  RankTables& tables() const { return *tables_; }

  // The number of the next point-to-point exchange. Each call returns another number, the same on
  // all ranks.
  int next_exchange() { return exchanges_++; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Throws the error for a failure that happened on another thread.
  [[noreturn]] void fail(const std::string& what, const std::string& why);

  // Waits for the work (step 4). Call it inside run_collective(). Throws the error that the work
  // failed with. Work enqueued on the device afterwards sees the results.
  void wait(const WorkPtr& work) { wait(work, {}); }
  void wait(const WorkPtr& work, const Channel& channel);

  void begin_long_work() { reporter_->begin_long_work(); }
  void end_long_work() { reporter_->end_long_work(); }

  // Whether step 6 applies. A failed group must not be destroyed, since Gloo's threads are still at
  // work.
  bool has_failed();

 private:
  using Clock = std::chrono::steady_clock;

  void meet();
  void begin(const std::string& what);
  MeetingPlace place() const;
  c10::intrusive_ptr<c10d::Store> connect() const;
  Channel connect(const std::string& name, std::int64_t index, std::int64_t count,
                  at::Device device, Transport transport);

  Launch launch_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::optional<LivenessWatch> watch_;  // Set by meet().
  c10::intrusive_ptr<Backend> backend_;
  std::map<std::string, Channel> channels_;  // By the name of each requested device.
  const std::unique_ptr<RankTables> tables_;
  int exchanges_ = 0;
  Clock::time_point deadline_;  // The current collective's.
  std::mutex mutex_;            // Guards failure_.
  std::string failure_;         // The first failure (step 6); empty: none.
  // Set by meet(). Last, so that its thread ends before the members that it uses.
  std::optional<StatusReporter> reporter_;
};

// Each rank has a socket to every other rank, and rank 0 also has the store's sockets. Returns the
// soft limit on open files that a job of so many ranks needs; nullopt if the present soft limit is
// high enough. Throws UsageError if the hard limit is too low. It throws on all ranks, so that none
// waits for a rank that cannot come.
std::optional<std::uint64_t> soft_limit_for(std::int64_t world_size, const OpenFileLimit& limit);

// The group; null for a single process, and before initialize().
Group* group();

// The group; null if there is one process. Throws UsageError if several processes were started and
// initialize() was not called.
Group* required_group();

// The machine of each rank, by rank: its node's name, plus the launcher's number of the node if
// known, since containers may all have one name. For a single process, its own machine.
std::vector<std::string> machines_of_ranks();
std::int64_t count_machines();

// Sends rank 0's tensors to all other ranks, which receive them into their own `tensors`. Uses few
// messages.
void broadcast_tensors(const std::vector<at::Tensor>& tensors, const std::string& what);

// The sums over the ranks. For one process, returns `numbers`.
std::vector<double> sum(std::vector<double> numbers, const std::string& what);

}  // namespace cairn::dist

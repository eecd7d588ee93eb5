// The processes of a job, connected.
//
//  1. All meet in a store, c10d's TCPStore: rank 0 listens at MASTER_ADDR:MASTER_PORT, or
//     torchrun's agent does. On one machine rank 0 listens at 127.0.0.1. It writes which job this
//     is: its launcher's id, or one that it makes. A rank that was started by another job ends with
//     an error before it writes anything. Each of the others writes that it is there, under the
//     job's id, and waits for all.
//  2. Collectives go through Gloo, which connects all with all. Its connections end with a process,
//     so that its peers know at once. Tensors of GPUs go through NCCL where it is there (Channel),
//     those of the host through MPI where the user says so; these are connected when they are first
//     sent.
//  3. What is done together is numbered. A rank that waits for long writes its number into the
//     store (StatusReporter): so everybody can know who has come and who has not (LivenessWatch).
//     The connection for this is a second one, since the first may be waiting, and there from the
//     beginning: libtorch 1.13 aborts a process that opens one while rank 0 dies (its thread for
//     callbacks throws when the connection is reset).
//  4. Time is limited here and not by Gloo, which could not be told to go on waiting: after
//     `timeout` a rank looks who is missing. One that says that it does something long (LongWork)
//     is waited for as long again.
//     Of works on a device it looks every second whether a process is gone, which NCCL need not
//     notice.
//  5. When something fails, a rank writes its own number, looks for those of all others for a
//     while, and names those that are behind in its error. What the first one found, it writes down
//     for all.
//  6. After a failure nothing works any more: what Gloo still does nobody could take back.
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
  // Step 1 and 2. DistError naming the ranks that did not come.
  Group(Launch launch, std::chrono::milliseconds timeout);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const Launch& launch() const { return launch_; }
  Backend& backend() const { return *backend_; }
  // Of all ranks, for tensors on `device`; all ranks call it together, each with its own device of
  // one kind. DistError.
  const Channel& channel(at::Device device);
  // Connects some of the ranks with each other, this one among them, in their order. All ranks of
  // the job call it in the same order, each with its own set; `name` tells sets apart. The whole
  // group's own when they are all; without a backend for this rank alone. DistError.
  Channel connect_some(const std::string& name, const std::vector<std::int64_t>& ranks,
                       at::Device device);

  // What all ranks do: `act()` begins it, and wait()s. `what` is for messages.
  template <class Act>
  void together(const std::string& what, Act act) {
    begin(what);
    try {
      act();
    } catch (const Error&) {  // of this rank alone
      reporter_->end_waiting();
      throw;
    } catch (const std::exception& error) {
      fail(what, error.what());
    }
    reporter_->end_waiting();
  }

  // A way to the place of that name, where the ranks tell each other what is not done together. On
  // a connection of its own, which waits for nobody else.
  std::shared_ptr<StoreMeeting> meet_others(const std::string& name);
  RankTables& tables() const { return *tables_; }

  // A number for what goes point to point: of each call another one, on all ranks alike.
  int next_exchange() { return exchanges_++; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // What the error of something that failed on other threads says. Throws.
  [[noreturn]] void fail(const std::string& what, const std::string& why);

  // Step 4. Inside together(). Throws what the work failed with. What is enqueued on a device
  // behind it finds the work done.
  void wait(const WorkPtr& work) { wait(work, {}); }
  void wait(const WorkPtr& work, const Channel& channel);

  void begin_long_work() { reporter_->begin_long_work(); }
  void end_long_work() { reporter_->end_long_work(); }

  // Step 6: then it may not be destroyed, since Gloo's threads are still at work.
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
  std::optional<LivenessWatch> watch_;  // from meet() on
  c10::intrusive_ptr<Backend> backend_;
  std::map<std::string, Channel> channels_;  // of each device that was asked for, by name
  const std::unique_ptr<RankTables> tables_;
  int exchanges_ = 0;
  Clock::time_point deadline_;  // of what is done together
  std::mutex mutex_;            // of failure_
  std::string failure_;         // step 6
  // From meet() on. The last, so that its thread ends before what it uses.
  std::optional<StatusReporter> reporter_;
};

// Each rank has a socket to each other one, and rank 0 those of the store. Returns the soft limit
// on open files that a job of so many ranks should have; nullopt if it has that. UsageError if the
// hard limit is too low: on all ranks, so that none waits for another that cannot come.
std::optional<std::uint64_t> soft_limit_for(std::int64_t world_size, const OpenFileLimit& limit);

// Null for a process alone, and before initialize().
Group* group();

// The group; UsageError when several processes were started and initialize() was not called.
// Null when there is one process.
Group* required_group();

// The machine of each rank, by rank: its node's name, and the launcher's number of the node where
// that is known, since containers may all have one name. Of a process alone its own.
std::vector<std::string> machines_of_ranks();
std::int64_t count_machines();

// Rank 0's tensors go to all others, in place, in few messages.
void broadcast_tensors(const std::vector<at::Tensor>& tensors, const std::string& what);

// The sums over the ranks; of one process what was given.
std::vector<double> sum(std::vector<double> numbers, const std::string& what);

}  // namespace cairn::dist

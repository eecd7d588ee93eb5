#include "dist/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <future>
#include <stdexcept>
#include <utility>

#include "dist/job_id.h"
#include "dist/rank_tables.h"
#include "dist/store_meeting.h"

namespace cairn::dist {
namespace {

using std::chrono::milliseconds;

// The time limit that the backends get. It must not expire before the limit of this class (step 4).
constexpr milliseconds kTheirTimeout = std::chrono::hours(24);

// Removes the backtrace, with which c10d's messages end.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string absent_text(const std::vector<std::int64_t>& absent) {
  return fmt::format("rank{} {} did not come", absent.size() == 1 ? "" : "s",
                     fmt::join(absent, ", "));
}

// waits() and polls() return whether a work ends within `limit`. Both throw the error that the work
// failed with.
bool waits(const WorkPtr& work, milliseconds limit) {
  try {
    work->wait(limit);
    return true;
  } catch (const std::exception&) {
    if (work->isCompleted() && !work->isSuccess()) throw;
    return work->isCompleted();  // The work may have ended just now.
  }
}

// For a work on a device: the host is not notified of its end.
bool polls(const WorkPtr& work, milliseconds limit) {
  constexpr milliseconds kSpin{1};  // Most works have ended by then.
  const auto begin = std::chrono::steady_clock::now();
  while (!work->isCompleted()) {
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (passed >= limit) return false;
    if (passed < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  if (work->exception()) std::rethrow_exception(work->exception());
  return true;
}

}  // namespace

Group::Group(Launch launch, milliseconds timeout)
    : launch_(std::move(launch)), timeout_(timeout), tables_(std::make_unique<RankTables>()) {
  transport_of(at::kCPU);  // Throws for an unavailable library before any rank waits.
  check_interface();
  if (const auto soft = soft_limit_for(launch_.world_size, open_file_limit()))
    set_soft_open_file_limit(*soft);
  meet();
  backend_ = connect("gloo", launch_.rank, launch_.world_size, at::kCPU, Transport::kGloo).backend;
}

Group::~Group() = default;

MeetingPlace Group::place() const {
  return {.host = launch_.master_addr,
          .port = static_cast<std::uint16_t>(*launch_.master_port),
          .is_of_loopback = is_on_one_machine(launch_) && !launch_.is_store_hosted};
}

c10::intrusive_ptr<c10d::Store> Group::connect() const {
  return with_prefix("cairn" + launch_.attempt + "/" + launch_.job_id,
                     open_store(place(), /*listens=*/false, timeout_));
}

// c10d's time limits differ from this class's. So c10d connects on a separate thread, which is
// abandoned after timeout_.
Channel Group::connect(const std::string& name, std::int64_t index, std::int64_t count,
                       at::Device device, Transport transport) {
  const Member member = {.rank = static_cast<int>(index),
                         .world_size = static_cast<int>(count),
                         .timeout = kTheirTimeout,
                         .is_one_machine = is_on_one_machine(launch_)};
  std::packaged_task<c10::intrusive_ptr<Backend>()> task(
      [store = with_prefix(name, store_), member, device, transport] {
        switch (transport) {
          case Transport::kNccl:
            return open_nccl(store, member, device);
          case Transport::kMpi:
            return open_mpi(member);
          case Transport::kGloo:
            break;
        }
        return open_gloo(store, member);
      });
  auto opened = task.get_future();
  std::thread(std::move(task)).detach();
  const std::string what = "connecting the processes with each other";
  if (opened.wait_for(timeout_) != std::future_status::ready) fail(what, "it takes too long");
  try {
    const at::Device home = transport == Transport::kGloo ? at::kCPU : device;
    return {.backend = opened.get(), .device = device, .home = home};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(what, error.what());
  }
}

const Channel& Group::channel(at::Device device) {
  const auto [place, is_new] = channels_.try_emplace(device.str());
  Channel& channel = place->second;
  if (channel.backend == nullptr) {
    if (!device.is_cpu()) reporter_->show_life();
    const Transport transport = transport_of(device);
    channel = transport == Transport::kGloo
                  ? Channel{.backend = backend_, .device = device}
                  : connect("all" + std::to_string(channels_.size()), launch_.rank,
                            launch_.world_size, device, transport);
  }
  return channel;
}

Channel Group::connect_some(const std::string& name, const std::vector<std::int64_t>& ranks,
                            at::Device device) {
  const auto count = static_cast<std::int64_t>(ranks.size());
  if (count == launch_.world_size) return channel(device);
  const auto own = std::ranges::find(ranks, launch_.rank) - ranks.begin();
  if (count == 1) return {.device = device};
  if (!device.is_cpu()) reporter_->show_life();
  // c10d's MPI runs one call at a time per process: two groups could wait for each other.
  const Transport transport = device.is_cpu() ? Transport::kGloo : transport_of(device);
  return connect("some/" + name, own, count, device, transport);
}

void Group::meet() {
  const bool listens = launch_.rank == 0 && !launch_.is_store_hosted;
  const std::string where = launch_.master_addr + ":" + std::to_string(*launch_.master_port);
  try {
    const auto door =
        with_prefix("cairn" + launch_.attempt, open_store(place(), listens, timeout_));
    // If the store is of another version of c10d, it accepts the connection, and then closes it:
    // check() throws now.
    if (launch_.is_store_hosted) door->check({"job"});
    launch_.job_id = agree_on_job(*door, launch_, timeout_);
    store_ = with_prefix(launch_.job_id, door);
    watch_.emplace(connect(), launch_.rank, launch_.world_size);
    reporter_.emplace(*watch_, std::min(kLongWait, timeout_ / 4));
  } catch (const std::exception& error) {
    // Only c10d's exceptions, and a StorageError (the port is taken), concern the meeting place.
    const bool is_of_place = dynamic_cast<const Error*>(&error) == nullptr ||
                             dynamic_cast<const StorageError*>(&error) != nullptr;
    if (!is_of_place) throw;
    if (listens) {
      throw DistError("rank 0 cannot listen at " + where + ", where all others look for it: " +
                          first_line(error.what()) + ". Give MASTER_PORT a port that is free",
                      {});
    }
    if (launch_.is_store_hosted) {
      throw DistError(
          fmt::format("rank {} cannot use the store of torchrun at {}: {}.\nIf torchrun's PyTorch "
                      "is of another version than this program's libtorch ({}), use\n  "
                      "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --rdzv_backend c10d (or "
                      "--standalone). Rank 0 then has the store",
                      launch_.rank, where, first_line(error.what()), TORCH_VERSION),
          {});
    }
    throw DistError(fmt::format("rank {} did not find rank 0 at {} within {} s: {}\nMASTER_ADDR "
                                "and MASTER_PORT must be the same on all ranks",
                                launch_.rank, where, static_cast<double>(timeout_.count()) / 1000,
                                first_line(error.what())),
                    {0});
  }
  try {
    watch_->report_number(0);
    store_->wait(watch_->all_places(), timeout_);
  } catch (const std::exception& error) {
    fail("meeting at " + where, error.what());
  }
}

std::shared_ptr<StoreMeeting> Group::meet_others(const std::string& name) {
  return std::make_shared<StoreMeeting>(with_prefix(name, connect()));
}

void Group::begin(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  if (!failure_.empty()) {
    throw DistError(what + ": nothing can be done together any more, since " + failure_, {});
  }
  reporter_->begin_waiting();
  deadline_ = Clock::now() + timeout_;
}

void Group::wait(const WorkPtr& work, const Channel& channel) {
  bool is_last_try = false;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
    const milliseconds limit = std::max(left, milliseconds(1));
    if (channel.is_polled() ? polls(work, std::min(limit, kLongWait)) : waits(work, limit)) return;
    if (channel.is_polled() && watch_->is_any_rank_gone()) {
      throw std::runtime_error("a process gives no sign of life");
    }
    if (Clock::now() < deadline_) continue;
    if (is_last_try) {
      throw std::runtime_error(
          fmt::format("nothing for {} s", static_cast<double>(timeout_.count()) / 1000));
    }
    is_last_try = !watch_->is_awaited(reporter_->number());
    deadline_ = Clock::now() + (is_last_try ? std::min(kLongWait, timeout_) : timeout_);
  }
}

bool Group::has_failed() {
  const std::scoped_lock lock(mutex_);
  return !failure_.empty();
}

void Group::fail(const std::string& what, const std::string& why) {
  const bool hosts = launch_.rank == 0 || launch_.is_store_hosted;
  const auto found = watch_->find_absent(reporter_->number());
  std::vector<std::int64_t> absent = found.value_or(std::vector<std::int64_t>());
  std::string who = "which rank is missing is not known";
  if (!found && !hosts) {
    absent = {0};
    who = "rank 0 cannot be reached any more";
  } else if (!absent.empty()) {
    who = absent_text(absent);
  }
  const std::string text =
      fmt::format("rank {} of {}: {} failed: {}; a process ended, hangs, or is cut off ({})",
                  launch_.rank, launch_.world_size, what, who, first_line(why));
  {
    const std::scoped_lock lock(mutex_);
    failure_ = text;
    reporter_->end_waiting();
    abandon_mpi();
  }
  throw DistError(text +
                      ". Look into the log of that process, and start the job again: with "
                      "autoresume it goes on from the newest checkpoint",
                  std::move(absent));
}

std::optional<std::uint64_t> soft_limit_for(std::int64_t world_size, const OpenFileLimit& limit) {
  constexpr std::uint64_t kOfProgram = 64;
  constexpr std::uint64_t kOfRank = 3;  // One socket of Gloo's and, at rank 0, two of the store's.
  // Includes the connections of groups of shards, and of each thread that saves.
  constexpr std::uint64_t kOfRankLater = 8;
  const auto ranks = static_cast<std::uint64_t>(world_size);
  const std::uint64_t needed = kOfProgram + kOfRank * ranks;
  const std::uint64_t wanted = kOfProgram + kOfRankLater * ranks;
  if (limit.hard < needed) {
    throw UsageError(fmt::format(
        "a job of {0} ranks needs at least {1} open files in a process, since each has a socket "
        "to each other one, and this process may have {2} (the hard limit RLIMIT_NOFILE).\n"
        "Raise it where the job is started, with one of:\n"
        "  `ulimit -n {3}` as root\n"
        "  LimitNOFILE={3} in a systemd unit (slurmd's, say)\n"
        "  `nofile {3}` in /etc/security/limits.conf\n"
        "  --ulimit nofile={3} for a container",
        ranks, needed, limit.hard, wanted));
  }
  if (limit.soft >= std::min(limit.hard, wanted)) return std::nullopt;
  return std::min(limit.hard, wanted);
}

LongWork::LongWork() {
  if (group() != nullptr) group()->begin_long_work();
}
LongWork::~LongWork() {
  if (group() != nullptr) group()->end_long_work();
}

}  // namespace cairn::dist

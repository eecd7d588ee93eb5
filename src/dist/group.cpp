#include "dist/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "dist/store_meeting.h"

namespace cairn::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLong{1000};   // to wait before others are told
constexpr milliseconds kGrace{3000};  // to find out who is missing
constexpr milliseconds kPoll{20};     // meanwhile
const std::string kVerdict = "verdict";

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string key_of(std::int64_t rank) { return "at/" + std::to_string(rank); }

// c10d's messages end with a backtrace.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(std::stoll(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

Group::Group(Launch launch, milliseconds timeout) : launch_(std::move(launch)), timeout_(timeout) {
  meet();
  try {
    const GlooMember member = {.rank = static_cast<int>(launch_.rank),
                               .world_size = static_cast<int>(launch_.world_size),
                               .timeout = timeout_,
                               .is_one_machine = launch_.local_world_size == launch_.world_size};
    backend_ = open_gloo(with_prefix("gloo", store_), member);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail("connecting the processes with each other", error.what());
  }
  watcher_ = std::thread([this] { watch(); });
}

Group::~Group() {
  {
    const std::scoped_lock lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

MeetingPlace Group::place() const {
  return {launch_.master_addr, static_cast<std::uint16_t>(*launch_.master_port)};
}

c10::intrusive_ptr<c10d::Store> Group::connect(bool listens) const {
  return with_prefix("cairn" + launch_.attempt, open_store(place(), listens, timeout_));
}

void Group::meet() {
  const bool listens = launch_.rank == 0 && !launch_.is_store_hosted;
  const std::string where = launch_.master_addr + ":" + std::to_string(*launch_.master_port);
  try {
    store_ = connect(listens);
    side_store_ = connect(/*listens=*/false);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (listens) {
      throw DistError("rank 0 cannot listen at " + where + ", where all others look for it: " +
                          first_line(error.what()) + ". Give MASTER_PORT a port that is free",
                      {});
    }
    throw DistError(
        fmt::format("rank {} did not find {} at {} within {} s: {}. MASTER_ADDR and MASTER_PORT "
                    "must be the same on all ranks",
                    launch_.rank, launch_.is_store_hosted ? "torchrun" : "rank 0", where,
                    static_cast<double>(timeout_.count()) / 1000, first_line(error.what())),
        launch_.is_store_hosted ? std::vector<std::int64_t>() : std::vector<std::int64_t>{0});
  }
  try {
    store_->set(key_of(launch_.rank), bytes_of("0"));
    std::vector<std::string> all;
    for (std::int64_t r = 0; r < launch_.world_size; ++r)
      all.push_back(key_of(r));
    store_->wait(all, timeout_);
  } catch (const std::exception& error) {
    fail("meeting at " + where, error.what());
  }
}

// On its connection for step 3, which never waits for anybody. Rank 0 opens it before it is used:
// what rank_table() does together comes first.
std::shared_ptr<StoreMeeting> Group::meet_others() {
  return std::make_shared<StoreMeeting>(
      with_prefix("table" + std::to_string(++meetings_), side_store_));
}

void Group::begin(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  if (!failure_.empty()) {
    throw DistError(what + ": nothing can be done together any more, since " + failure_, {});
  }
  ++number_;
  is_waiting_ = true;
}

void Group::end() {
  const std::scoped_lock lock(mutex_);
  is_waiting_ = false;
}

// Step 3.
void Group::watch() {
  const milliseconds interval = std::min(kLong, timeout_ / 4);
  std::int64_t seen = 0;
  std::int64_t told = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return is_closing_; })) {
    const std::int64_t number = number_;
    const bool is_long = is_waiting_ && number == std::exchange(seen, number);
    if (!is_long || told == number) continue;
    lock.unlock();
    try {
      side_store_->set(key_of(launch_.rank), bytes_of(std::to_string(number)));
      told = number;
    } catch (const std::exception&) {  // rank 0 is gone: whoever waits will know
      return;
    }
    lock.lock();
  }
}

// Step 4. nullopt: the store is gone, so that nobody can say.
std::optional<std::vector<std::int64_t>> Group::find_absent(std::int64_t number) const {
  try {
    const auto& store = side_store_;
    store->set(key_of(launch_.rank), bytes_of(std::to_string(number)));
    const auto is_absent = [&](std::int64_t rank) {
      if (!store->check({key_of(rank)})) return true;
      return std::stoll(text_of(store->get(key_of(rank)))) < number;
    };
    std::vector<std::int64_t> absent;
    for (std::int64_t rank = 0; rank < launch_.world_size; ++rank)
      absent.push_back(rank);
    const auto deadline = Clock::now() + kGrace;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    for (std::condition_variable never;;) {
      if (store->check({kVerdict})) return numbers_of(text_of(store->get(kVerdict)));
      std::erase_if(absent, [&](std::int64_t rank) { return !is_absent(rank); });
      if (absent.empty() || Clock::now() >= deadline) break;
      never.wait_for(lock, kPoll);
    }
    store->set(kVerdict, bytes_of(fmt::format("{}", fmt::join(absent, ","))));
    return absent;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string Group::absent_text(const std::vector<std::int64_t>& absent) const {
  return fmt::format("rank{} {} did not come", absent.size() == 1 ? "" : "s",
                     fmt::join(absent, ", "));
}

void Group::fail(const std::string& what, const std::string& why) {
  std::int64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    number = number_;
  }
  const bool hosts = launch_.rank == 0 || launch_.is_store_hosted;
  const auto found = find_absent(number);
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
    is_waiting_ = false;
  }
  throw DistError(text +
                      ". Look into the log of that process, and start the job again: with "
                      "autoresume it goes on from the newest checkpoint",
                  std::move(absent));
}

}  // namespace cairn::dist

#include "dist/liveness/liveness_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace cairn::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGrace{3000};     // To find missing ranks, or to see a count rise.
constexpr milliseconds kPoll{20};        // Between looks within kGrace.
constexpr milliseconds kPatience{8000};  // For an answer; includes kGrace.
constexpr int kSilentLooks = 15;
const std::string kVerdict = "verdict";
const std::string kAlarm = "alarm";

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string place_key(std::int64_t rank) { return "at/" + std::to_string(rank); }
std::string life_key(std::int64_t rank) { return "alive/" + std::to_string(rank); }
std::string busy_key(std::int64_t rank) { return "busy/" + std::to_string(rank); }

std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(std::stoll(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return numbers;
}

// Calls `look` until it returns true, or kGrace is over.
template <class Look>
void look_for_a_while(Look look) {
  const auto deadline = Clock::now() + kGrace;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  for (std::condition_variable never; !look() && Clock::now() < deadline;)
    never.wait_for(lock, kPoll);
}

}  // namespace

LivenessWatch::LivenessWatch(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank,
                             std::int64_t world_size)
    : shared_(std::make_shared<Shared>(Shared{std::move(store), rank, world_size})) {}

void LivenessWatch::report_number(std::int64_t number) { shared_->report_number(number); }

void LivenessWatch::show_work() { shared_->store->add(busy_key(shared_->rank), 1); }

std::vector<std::string> LivenessWatch::all_places() const {
  std::vector<std::string> keys;
  for (std::int64_t r = 0; r < shared_->world_size; ++r)
    keys.push_back(place_key(r));
  return keys;
}

std::optional<std::vector<std::int64_t>> LivenessWatch::find_absent(std::int64_t number) {
  return ask<std::vector<std::int64_t>>(
      [number](Shared& shared) { return shared.find_absent(number); });
}

bool LivenessWatch::is_awaited(std::int64_t number) {
  return ask<bool>([number](Shared& shared) { return shared.is_awaited(number); }).value_or(false);
}

void LivenessWatch::show_life() { shared_->store->add(life_key(shared_->rank), 1); }

bool LivenessWatch::is_any_rank_gone() {
  const auto life =
      ask<std::string>([](Shared& shared) { return shared.life_of_next(); }).value_or(kAlarm);
  if (life == kAlarm) return true;
  // A rank counts as silent only after its first sign of life.
  const bool is_silent = life == life_of_next_ && !life.empty();
  silent_looks_ = is_silent ? silent_looks_ + 1 : 0;
  life_of_next_ = life;
  if (silent_looks_ < kSilentLooks) return false;
  ask<bool>([](Shared& shared) {
    shared.store->set(kAlarm, bytes_of("1"));
    return true;
  });
  return true;
}

template <class Answer>
std::optional<Answer> LivenessWatch::ask(std::function<Answer(Shared&)> question) {
  if (is_lost_) return std::nullopt;
  std::packaged_task<Answer()> task(
      [shared = shared_, question = std::move(question)] { return question(*shared); });
  std::future<Answer> answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_for(kPatience) == std::future_status::ready) {
    try {
      return answer.get();
    } catch (const std::exception&) {  // The store is gone.
    }
  }
  is_lost_ = true;
  return std::nullopt;
}

void LivenessWatch::Shared::report_number(std::int64_t number) {
  store->set(place_key(rank), bytes_of(std::to_string(number)));
}

bool LivenessWatch::Shared::is_absent(std::int64_t of_rank, std::int64_t number) {
  if (!store->check({place_key(of_rank)})) return true;
  return std::stoll(text_of(store->get(place_key(of_rank)))) < number;
}

std::vector<std::int64_t> LivenessWatch::Shared::absent(std::int64_t number) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t r = 0; r < world_size; ++r) {
    if (is_absent(r, number)) ranks.push_back(r);
  }
  return ranks;
}

std::vector<std::int64_t> LivenessWatch::Shared::find_absent(std::int64_t number) {
  report_number(number);
  std::vector<std::int64_t> missing;
  bool is_said = false;
  look_for_a_while([&] {
    is_said = store->check({kVerdict});
    missing = is_said ? numbers_of(text_of(store->get(kVerdict))) : absent(number);
    return is_said || missing.empty();
  });
  if (!is_said) store->set(kVerdict, bytes_of(fmt::format("{}", fmt::join(missing, ","))));
  return missing;
}

std::vector<std::string> LivenessWatch::Shared::beats(const std::vector<std::int64_t>& ranks) {
  std::vector<std::string> counts;
  for (const std::int64_t r : ranks)
    counts.push_back(store->check({busy_key(r)}) ? text_of(store->get(busy_key(r))) : "");
  return counts;
}

// The count of the next rank; "" if that rank has raised none yet; kAlarm if a rank raised the
// alarm.
std::string LivenessWatch::Shared::life_of_next() {
  if (store->check({kAlarm})) return kAlarm;
  const std::string key = life_key((rank + 1) % world_size);
  return store->check({key}) ? text_of(store->get(key)) : "";
}

bool LivenessWatch::Shared::is_awaited(std::int64_t number) {
  report_number(number);
  const std::vector<std::int64_t> missing = absent(number);
  if (missing.empty()) return false;
  const std::vector<std::string> before = beats(missing);
  bool is_any = false;
  look_for_a_while([&] {
    is_any = store->check({kVerdict}) || beats(missing) != before;
    return is_any;
  });
  return is_any && !store->check({kVerdict});
}

}  // namespace cairn::dist

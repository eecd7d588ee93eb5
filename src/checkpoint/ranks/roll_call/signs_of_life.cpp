#include "checkpoint/ranks/roll_call/signs_of_life.h"

#include <fmt/format.h>

namespace cairn {
namespace {

const std::string kLeft = "left";

std::string beat_key(std::int64_t rank) { return "beat/" + std::to_string(rank); }

bool is_of_number(const std::string& beat, std::int64_t number) {
  return beat.starts_with(std::to_string(number) + " ");
}

}  // namespace

SignsOfLife::SignsOfLife(const RankTable& table, std::int64_t number)
    : table_(table), number_(number), last_(table.meeting->now() - table.patience.beat) {}

bool SignsOfLife::is_due(Meeting::Time now) const { return now - last_ >= table_.patience.beat; }

void SignsOfLife::give() {
  last_ = table_.meeting->now();
  table_.meeting->set(beat_key(table_.me.rank), fmt::format("{} {}", number_, ++count_));
}

void SignsOfLife::leave() {
  table_.meeting->set(beat_key(table_.me.rank), fmt::format("{} {}", number_, kLeft));
}

void WatchedRanks::add(std::int64_t rank) { watched_[rank] = {"", table_.meeting->now()}; }

void WatchedRanks::begin_anew(Meeting::Time time) {
  for (auto& [rank, watched] : watched_) {
    watched.changed = time;
  }
}

std::optional<WatchedRanks::Silent> WatchedRanks::look() {
  for (auto& [rank, watched] : watched_) {
    if (!is_silent(rank, watched)) continue;
    const double seconds = std::chrono::duration<double>(table_.patience.silence).count();
    const char* const what =
        watched.beat.empty() ? "did not come within" : "was not heard from for";
    return Silent{rank,
                  fmt::format("{} {} s: its process ended, hangs, or is cut off", what, seconds)};
  }
  return std::nullopt;
}

bool WatchedRanks::is_silent(std::int64_t rank, Watched& watched) const {
  const auto beat = table_.ask([&] { return table_.meeting->find(beat_key(rank)); });
  if (beat && is_of_number(*beat, number_) && *beat != watched.beat) {
    watched = {*beat, table_.meeting->now()};
    return false;
  }
  return table_.meeting->now() - watched.changed >= table_.patience.silence;
}

bool WatchedRanks::has_left(std::int64_t rank) const {
  const auto beat = table_.meeting->find(beat_key(rank));
  if (!beat) return false;
  return beat->ends_with(kLeft) || !is_of_number(*beat, number_);
}

}  // namespace cairn

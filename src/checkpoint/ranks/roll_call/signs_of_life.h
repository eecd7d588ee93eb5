// The keys "beat/<rank>": a rank changes its own key, and watches the keys of the other ranks
// (steps 2, 3 and 7 of roll_call.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/ranks/rank_table.h"

namespace cairn {

// This rank's signs of life for one number.
class SignsOfLife {
 public:
  // `table` must outlive it.
  SignsOfLife(const RankTable& table, std::int64_t number);

  bool is_due(Meeting::Time now) const;
  // Gives a sign, with one call to the meeting place. Throws MeetingError.
  void give();
  // Gives the last sign: this rank is done with the number. Throws MeetingError.
  void leave();

 private:
  const RankTable& table_;
  const std::int64_t number_;
  std::int64_t count_ = 0;
  Meeting::Time last_;
};

// The other ranks' signs of life.
class WatchedRanks {
 public:
  // `table` must outlive it.
  WatchedRanks(const RankTable& table, std::int64_t number) : table_(table), number_(number) {}

  // Watches `rank` from now on.
  void add(std::int64_t rank);
  void remove(std::int64_t rank) { watched_.erase(rank); }
  // Begins to watch all ranks anew at `time`, because this rank has not looked for long and has
  // missed signs of life.
  void begin_anew(Meeting::Time time);

  struct Silent {
    std::int64_t rank;
    std::string why;  // for messages
  };
  // Looks at each rank. Returns the first rank that has been silent for Patience::silence, if there
  // is one. Throws MeetingError.
  std::optional<Silent> look();

  // Whether a rank is done with the number: it left, or went on to the next number. Throws
  // MeetingError.
  bool has_left(std::int64_t rank) const;

 private:
  struct Watched {
    std::string beat;
    Meeting::Time changed;
  };
  bool is_silent(std::int64_t rank, Watched& watched) const;

  const RankTable& table_;
  const std::int64_t number_;
  std::map<std::int64_t, Watched> watched_;
};

}  // namespace cairn

// What a rank is told to write, and what it says that it has written, as texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::sharded {

// Which of a rank's parts, as RankState::for_each_part() numbers them, it writes.
struct RankPlan {
  std::uint32_t rank = 0;
  std::uint64_t parts_hash = 0;  // of the Description::parts that it was made for
  std::vector<bool> writes = {};

  std::string text() const;
  // CorruptError; UnsupportedError of another version of cairn.
  static RankPlan parse(std::string_view text);
};

// Where what a rank has written stands.
struct RankReport {
  struct File {
    std::uint64_t bytes = 0;
    std::string xxh3_128 = {};
  };
  struct Place {
    std::uint32_t file = 0;  // the number in its name
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  std::uint32_t rank = 0;
  std::uint64_t plan_hash = 0;  // of the plan that was followed
  std::vector<File> files = {};
  std::vector<Place> places = {};  // of each part that the plan says, in order

  std::string text() const;
  // CorruptError, also for a place outside of its file; UnsupportedError of another version.
  static RankReport parse(std::string_view text);
};

}  // namespace cairn::sharded

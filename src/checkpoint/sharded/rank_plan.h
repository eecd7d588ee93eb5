// A rank's plan of what to write, and its report of what it has written, as texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::sharded {

// The parts that a rank writes. RankState::for_each_part() numbers the parts.
struct RankPlan {
  std::uint32_t rank = 0;
  std::uint64_t parts_hash = 0;  // hash of the Description::parts for which the plan was made
  std::vector<bool> writes = {};

  std::string text() const;
  // Throws CorruptError, and UnsupportedError for a text of another version of cairn.
  static RankPlan parse(std::string_view text);
};

// Where the parts are that a rank has written.
struct RankReport {
  struct File {
    std::uint64_t bytes = 0;
    std::string xxh3_128 = {};
  };
  struct Place {
    std::uint32_t file = 0;  // the number in the file's name
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  std::uint32_t rank = 0;
  std::uint64_t plan_hash = 0;  // hash of the plan that the rank followed
  std::vector<File> files = {};
  std::vector<Place> places = {};  // of each part in the plan, in order

  std::string text() const;
  // Throws CorruptError, also for a place outside of its file, and UnsupportedError for a text of
  // another version of cairn.
  static RankReport parse(std::string_view text);
};

}  // namespace cairn::sharded

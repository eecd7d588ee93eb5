// Small checkpoints of several ranks. Every byte shows the rank and the save that it belongs to.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/ranks/commit_over_ranks.h"
#include "core/hash/xxh3.h"

namespace cairn::testing {

// Identifies one save of one start of a job.
struct SavedAs {
  std::int64_t start = 0;
  std::int64_t batch = 0;
  std::int64_t world_size = 1;
};

inline std::string part_text(const SavedAs& as, std::int64_t rank) {
  std::string text;
  for (int block = 0; block < 3; ++block) {
    text += fmt::format("start {} batch {} rank {} of {} block {}\n", as.start, as.batch, rank,
                        as.world_size, block);
  }
  return text;
}

inline ManifestFile file_of(std::string name, const std::string& text) {
  Xxh3 hash;
  hash.write(as_bytes(text));
  return {.name = std::move(name), .bytes = text.size(), .xxh3_128 = hash.digest128()};
}

// Writes the part of `rank`, in three blocks.
inline std::vector<ManifestFile> write_sample_part(PartPlace& place, const SavedAs& as,
                                                   std::int64_t rank) {
  const std::string text = part_text(as, rank);
  const std::string name = fmt::format("__{}_0.distcp", rank);
  place.write({.name = name, .expected_bytes = text.size(), .fill = [&](ObjectWrite& out) {
                 const std::size_t third = text.size() / 3;
                 out.write(as_bytes(text.substr(0, third)));
                 out.write(as_bytes(text.substr(third, third)));
                 out.write(as_bytes(text.substr(2 * third)));
               }});
  return {file_of(place.stored_name(name), text)};
}

inline std::string sample_metadata(const SavedAs& as, const std::vector<RankPart>& parts) {
  std::string text = fmt::format("{} {} {}\n", as.start, as.batch, as.world_size);
  for (const RankPart& part : parts) {
    for (const ManifestFile& file : part.files) {
      text += fmt::format("{} {}\n", part.rank, file.name);
    }
  }
  return text;
}

// Reads a file of the checkpoint from the machine that has it.
using ReadFile = std::function<std::optional<std::string>(const std::string& name)>;

// The problem of a visible checkpoint. "" if it is whole. Only for a checkpoint with a `.metadata`.
inline std::string problem_of(const ReadFile& read, std::int64_t batch) {
  std::istringstream metadata(read(".metadata").value_or(""));
  SavedAs as;
  metadata >> as.start >> as.batch >> as.world_size;
  if (!metadata || as.batch != batch) return "its .metadata is torn";
  std::int64_t rank = 0;
  std::int64_t files = 0;
  for (std::string name; metadata >> rank >> name; ++files) {
    const auto found = read(name);
    if (!found) return name + " is missing";
    if (*found != part_text(as, rank)) return name + " holds: " + *found;
  }
  return files == as.world_size ? "" : "its .metadata names too few files";
}

}  // namespace cairn::testing

// Goes through the names in a folder that were made from a format, furthest in training first,
// without opening a single file.
//
//  1. A level of the format ("ep{epoch}/ba{batch}.pt" has two) orders its names by the counters in
//     them that only grow: batch, epoch, sample, token. Counters that begin anew with each epoch
//     (such as the batch in the epoch) count only if the epoch is known.
//  2. Folders are listed only when their turn comes, the furthest first: names in the other folders
//     cannot be further.
//  3. Equally far names (a format without a growing counter) are ordered by the files' times,
//     newest first. In most stores the listing has the time. Other stores are asked for the time of
//     each such file.
//
// A name is only a claim; the file's content decides.
#pragma once

#include <chrono>
#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"

namespace cairn {

// The content of each listed folder. Several formats of one folder share the lists.
using ListedFolders = std::map<std::string, std::vector<ListedName>>;

struct NamedFile {
  std::string path;
  Timestamp claim = {};  // the counters that the name has; the others are 0
  // The time of the file. Set if the listing has the time, or if several names are equally far. In
  // the second case an unknown time is time_point::max().
  std::optional<std::chrono::system_clock::time_point> modified = std::nullopt;
};

class NamesByPosition {
 public:
  // Lists `folder` at once. Throws NotFoundError, UsageError if `folder` is not a folder, and
  // StorageError. Folders in `listed` are not listed again; `listed` must live as long as this
  // object.
  NamesByPosition(ObjectStore& store, std::string folder, const NameFormat& format,
                  const FormatVariables& dist, ListedFolders* listed = nullptr);

  // The furthest name that was not taken yet; nullptr if there is none. Throws StorageError, naming
  // the folder, if a folder that may hold the furthest name cannot be listed.
  const NamedFile* next();
  NamedFile take();  // returns and removes next(), which must exist

  // Compares `claim` with `position` by the counters of the format.
  std::strong_ordering compare(const Timestamp& claim, const Timestamp& position) const;

  // Whether next() will return, or has returned, this path.
  bool covers(const std::string& path) const;

 private:
  using Counter = std::int64_t Timestamp::*;
  struct Level {
    NameFormat format;
    std::size_t counters = 0;  // how many of counters_ are known from a name of this level
  };
  using Time = std::chrono::system_clock::time_point;
  struct Node {
    std::string path;
    std::size_t level = 0;  // the level that made its name
    Timestamp claim = {};
    std::optional<Time> modified = std::nullopt;  // if the listing has it
  };

  void add_level(const NameFormat& format);
  std::vector<ListedName> names_in(const std::string& folder);
  void list(const std::string& folder, std::size_t level, const Timestamp& claim);
  bool read_name(std::size_t level, const std::string& name, Timestamp& claim) const;
  bool is_behind(const Node& a, const Node& b) const;
  void fill();

  ObjectStore& store_;
  std::string folder_;
  FormatVariables dist_;
  ListedFolders* listed_;  // may be null
  std::vector<Level> levels_;
  std::vector<Counter> counters_;  // of all levels; names are ordered by them
  std::vector<Node> nodes_;        // a heap, furthest on top
  std::deque<NamedFile> ready_;    // equally far, newest first; further than all nodes_
};

}  // namespace cairn

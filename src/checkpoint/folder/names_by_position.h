// The names in a folder that were made from a format, furthest in training first, without looking
// into a single file.
//
//  1. A level of the format ("ep{epoch}/ba{batch}.pt" has two) orders its names by the counters in
//     them that only ever grow: batch, epoch, sample, token; and those that begin anew with each
//     epoch, once the epoch is known.
//  2. A folder is listed when it is its turn, the furthest first: what lies in one that is behind
//     cannot be further.
//  3. Names that are equally far (a format without a counter that grows) are ordered by the time of
//     the files, newest first. The listing tells it in most stores; other stores are asked for it.
//
// What a name says is a claim; what counts is what the file says.
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

// The content of each folder that was listed. Several formats of one folder share the lists.
using ListedFolders = std::map<std::string, std::vector<ListedName>>;

struct NamedFile {
  std::string path;
  Timestamp claim = {};  // the counters that the name has; the others are 0
  // The time of the file, if the listing told it or several names are equally far. The end of time
  // if it cannot be told.
  std::optional<std::chrono::system_clock::time_point> modified = std::nullopt;
};

class NamesByPosition {
 public:
  // Lists `folder` at once: NotFoundError, UsageError if it is no folder, StorageError. Folders in
  // `listed` are not listed again; `listed` must live as long as this object.
  NamesByPosition(ObjectStore& store, std::string folder, const NameFormat& format,
                  const FormatVariables& dist, ListedFolders* listed = nullptr);

  // The furthest name that was not taken yet; nullptr when there is none. StorageError, naming the
  // folder, when one that may hold the furthest cannot be listed.
  const NamedFile* next();
  NamedFile take();  // next(), which there must be

  // How `claim` compares with `position`, by the counters of the format.
  std::strong_ordering compare(const Timestamp& claim, const Timestamp& position) const;

  // Whether next() comes, or came, to this path.
  bool covers(const std::string& path) const;

 private:
  using Counter = std::int64_t Timestamp::*;
  struct Level {
    NameFormat format;
    std::size_t counters = 0;  // how many of counters_ are known when the name is
  };
  using Time = std::chrono::system_clock::time_point;
  struct Node {
    std::string path;
    std::size_t level = 0;  // that its name was made from
    Timestamp claim = {};
    std::optional<Time> modified = std::nullopt;  // if the listing told it
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
  std::vector<Counter> counters_;  // by which names are ordered, of all levels
  std::vector<Node> nodes_;        // a heap, furthest on top
  std::deque<NamedFile> ready_;    // equally far, newest first; in front of all nodes_
};

}  // namespace cairn

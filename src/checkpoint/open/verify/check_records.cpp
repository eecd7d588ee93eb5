#include "checkpoint/open/verify/check_records.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "core/hash/crc32.h"
#include "core/per_thread.h"
#include "io/bytes/pieces.h"
#include "io/files/file_source.h"
#include "io/threads/parallel.h"

namespace cairn {
namespace {

// Bytes that one core reads and checks while they are in its cache.
constexpr std::uint64_t kRecordBatchBytes = std::uint64_t{1} << 20;
// Bytes for one read if one core has to check all of a file. The read is large enough to be done by
// several threads, past the page cache.
constexpr std::uint64_t kAloneBatchBytes = std::uint64_t{40} << 20;

// Some bytes of one record, or bytes outside of all records. Either all bytes of the piece go to
// one place, or none of them is wanted.
struct RecordPiece {
  static constexpr std::size_t kNoRecord = ~std::size_t{0};

  std::size_t record = kNoRecord;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t size = 0;
  std::span<std::byte> place = {};  // empty: the bytes are not wanted
};

// Cuts records, and wanted bytes outside of them, into pieces. The pieces of a record are
// consecutive. Pieces are in the file's order unless records overlap, as they may in a hostile
// file. If records overlap, the first record gets the places.
class Cut {
 public:
  // `most`: the largest size of a piece in bytes.
  Cut(std::span<const ByteSource::Range> places, std::uint64_t most)
      : places_(places), most_(most) {}

  std::vector<RecordPiece> all(std::span<const FileRecord> records) {
    std::vector<std::size_t> order(records.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto is_before = [&](std::size_t a, std::size_t b) {
      return records[a].offset < records[b].offset;
    };
    if (!std::is_sorted(order.begin(), order.end(), is_before)) {
      std::stable_sort(order.begin(), order.end(), is_before);
    }
    pieces_.reserve(records.size() + places_.size());
    for (const std::size_t i : order) {
      add(i, records[i]);
    }
    pass(~std::uint64_t{0});
    return std::move(pieces_);
  }

 private:
  void add(std::size_t record, const FileRecord& in) {
    const std::uint64_t end = in.offset + in.size;
    for (std::uint64_t at = in.offset; at < end;) {
      pass(at);
      RecordPiece piece{.record = record, .offset = at};
      std::uint64_t stop = at + std::min(end - at, most_);
      if (at < done_) {
        stop = std::min(stop, done_);
      } else if (next_ < places_.size() && places_[next_].offset <= at) {
        const ByteSource::Range& place = places_[next_];
        stop = std::min(stop, place.offset + place.into.size());
        piece.place = place.into.subspan(at - place.offset, stop - at);
        done_ = stop;
      } else if (next_ < places_.size()) {
        stop = std::min(stop, places_[next_].offset);
      }
      piece.size = stop - at;
      pieces_.push_back(piece);
      at = stop;
    }
  }

  // Adds the wanted bytes before `at` that have no piece yet. These bytes are in no record, because
  // all further records begin at `at` or later.
  void pass(std::uint64_t at) {
    for (; next_ < places_.size() && places_[next_].offset < at; ++next_) {
      const ByteSource::Range& place = places_[next_];
      const std::uint64_t end = place.offset + place.into.size();
      const std::uint64_t begin = std::max(place.offset, done_);
      const std::uint64_t stop = std::min(end, at);
      if (begin < stop) {
        const std::span<std::byte> into = place.into.subspan(begin - place.offset, stop - begin);
        pieces_.push_back({.offset = begin, .size = stop - begin, .place = into});
        done_ = stop;
      }
      if (end > at) return;
    }
  }

  const std::span<const ByteSource::Range> places_;
  const std::uint64_t most_;
  std::size_t next_ = 0;    // index of the first place with bytes after done_
  std::uint64_t done_ = 0;  // all wanted bytes before this offset are in pieces_
  std::vector<RecordPiece> pieces_;
};

// Cuts the records into pieces. Reads the wanted bytes outside of all records at once, without a
// check.
std::vector<RecordPiece> cut(const CheckedRead& read, const std::vector<FileRecord>& records) {
  std::vector<RecordPiece> pieces = Cut(read.places, kRecordBatchBytes).all(records);
  std::vector<ByteSource::Range> rest;
  std::erase_if(pieces, [&](const RecordPiece& piece) {
    if (piece.record != RecordPiece::kNoRecord) return false;
    rest.push_back({piece.offset, piece.place});
    return true;
  });
  if (!rest.empty()) read.file.read(rest);
  return pieces;
}

// Batches of consecutive pieces, each with as many as fit into `most` bytes.
std::vector<std::span<RecordPiece>> batches_of(std::span<RecordPiece> pieces, std::uint64_t most) {
  std::vector<std::span<RecordPiece>> batches;
  for (std::size_t begin = 0; begin < pieces.size();) {
    std::size_t end = begin;
    for (std::uint64_t bytes = 0; end < pieces.size(); ++end) {
      bytes += pieces[end].size;
      if (end > begin && bytes > most) break;
    }
    batches.push_back(pieces.subspan(begin, end - begin));
    begin = end;
  }
  return batches;
}

void look_in_memory(const ByteSource& file, std::span<RecordPiece> batch, auto&& look) {
  for (RecordPiece& piece : batch) {
    const SharedBytes bytes = file.view(piece.offset, piece.size);
    ByteView found = bytes.view;
    if (!piece.place.empty()) {
      std::copy(found.begin(), found.end(), piece.place.begin());
      found = piece.place;
    }
    look(piece, found);
    bytes.release(bytes.view);
  }
}

// Returns memory for the bytes of a batch that are not wanted. Large batches use `own`.
std::span<std::byte> scratch_for(std::span<const RecordPiece> batch, std::vector<std::byte>& own) {
  std::uint64_t bytes = 0;
  for (const RecordPiece& piece : batch) {
    if (piece.place.empty()) bytes += piece.size;
  }
  static const BytesPerThread<kRecordBatchBytes> kept_ones;
  const std::span<std::byte> kept = kept_ones.here();
  if (bytes <= kept.size()) return kept;
  if (own.size() < bytes) own.resize(bytes);
  return own;
}

void read_and_look(const ByteSource& file, std::span<RecordPiece> batch,
                   std::span<std::byte> scratch, auto&& look) {
  static const PerThread<std::vector<ByteSource::Range>> kept_ones;
  std::vector<ByteSource::Range>& ranges = kept_ones.here();
  ranges.clear();
  std::size_t used = 0;
  for (const RecordPiece& piece : batch) {
    std::span<std::byte> into = piece.place;
    if (into.empty()) {
      into = scratch.subspan(used, piece.size);
      used += piece.size;
    }
    ranges.push_back({piece.offset, into});
  }
  file.read(ranges);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    look(batch[i], ByteView(ranges[i].into));
  }
}

// Calls look(piece, its bytes) for each piece, in order.
void for_each_of(const CheckedRead& read, std::span<RecordPiece> batch, std::vector<std::byte>& own,
                 auto&& look) {
  const auto look_and_tell = [&](RecordPiece& piece, ByteView bytes) {
    look(piece, bytes);
    if (read.on_progress) read.on_progress(piece.size);
  };
  if (read.file.in_memory()) return look_in_memory(read.file, batch, look_and_tell);
  read_and_look(read.file, batch, scratch_for(batch, own), look_and_tell);
}

// Computes the CRCs of records whose bytes arrive in any order and from several threads.
class CrcsOfRecords {
 public:
  explicit CrcsOfRecords(std::span<const FileRecord> records)
      : records_(records), crcs_(records.size(), 0) {}

  std::span<const FileRecord> records() const { return records_; }

  void add(std::size_t record, std::uint64_t offset, ByteView bytes) {
    const std::uint32_t crc = crc32(bytes);
    if (bytes.size() == records_[record].size) {
      crcs_[record] = crc;
      return;
    }
    const std::lock_guard lock(mutex_);
    some_.push_back({record, offset, bytes.size(), crc});
  }

  std::vector<std::uint32_t> all() && {
    std::sort(some_.begin(), some_.end(), [](const Some& a, const Some& b) {
      return std::pair(a.record, a.offset) < std::pair(b.record, b.offset);
    });
    for (const Some& some : some_) {
      std::uint32_t& crc = crcs_[some.record];
      crc = crc32_joined(crc, some.crc32, some.size);
    }
    return std::move(crcs_);
  }

 private:
  struct Some {
    std::size_t record = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint32_t crc32 = 0;
  };

  const std::span<const FileRecord> records_;
  std::vector<std::uint32_t> crcs_;
  std::mutex mutex_;
  std::vector<Some> some_;  // of records that arrived in several portions
};

// Runs of consecutive pieces: all pieces of one record, or of several small records.
std::vector<std::span<RecordPiece>> runs_of(std::span<RecordPiece> pieces) {
  std::vector<std::span<RecordPiece>> runs;
  std::uint64_t room = 0;  // left in the last run
  for (std::size_t begin = 0; begin < pieces.size();) {
    std::size_t end = begin;
    std::uint64_t bytes = 0;
    for (; end < pieces.size() && pieces[end].record == pieces[begin].record; ++end) {
      bytes += pieces[end].size;
    }
    const std::span<RecordPiece> record = pieces.subspan(begin, end - begin);
    if (bytes <= room) {
      runs.back() = {runs.back().data(), runs.back().size() + record.size()};
      room -= bytes;
    } else {
      runs.push_back(record);
      room = kRecordBatchBytes - std::min(kRecordBatchBytes, bytes);
    }
    begin = end;
  }
  return runs;
}

}  // namespace

std::vector<FileRecord> wanted(const std::vector<FileRecord>& records,
                               std::span<const ByteSource::Range> places) {
  auto place = places.begin();
  std::uint64_t before = 0;
  const auto is_wanted = [&](const FileRecord& record) {
    const auto is_over = [&](const ByteSource::Range& range) {
      return range.offset + range.into.size() <= record.offset;
    };
    const bool is_in_order = record.offset >= std::exchange(before, record.offset);
    const auto from = is_in_order ? place : places.begin();
    place = is_in_order ? std::find_if_not(from, places.end(), is_over)
                        : std::partition_point(from, places.end(), is_over);
    return place != places.end() && place->offset < record.offset + record.size;
  };
  std::vector<FileRecord> found;
  found.reserve(std::min(records.size(), 2 * places.size()));  // most records are one place each
  std::copy_if(records.begin(), records.end(), std::back_inserter(found), is_wanted);
  return found;
}

namespace {

// Some records, and the places for their bytes.
struct Portion {
  std::span<const FileRecord> records;
  std::span<const ByteSource::Range> places;
};

// Groups of records, each read with one call. For 100,000 records at once the list of pieces would
// take 30 MiB, and the disk would wait while the list is made. A small rest is not split off.
std::vector<std::span<const FileRecord>> groups_of(std::span<const FileRecord> records) {
  constexpr std::size_t kRecords = std::size_t{8} << 10;
  constexpr std::uint64_t kBytes = std::uint64_t{64} << 20;
  const auto is_before = [](const FileRecord& a, const FileRecord& b) {
    return a.offset < b.offset;
  };
  if (!std::is_sorted(records.begin(), records.end(), is_before)) return {records};
  std::vector<std::span<const FileRecord>> groups;
  while (records.size() > 2 * kRecords) {
    const auto is_far = [&](const FileRecord& record) {
      return record.offset - records.front().offset >= kBytes;
    };
    const auto end = std::find_if(records.begin() + kRecords, records.end(), is_far);
    if (end == records.end()) break;
    groups.push_back({records.begin(), end});
    records = {end, records.end()};
  }
  groups.push_back(records);
  return groups;
}

// Cuts the places at the offsets where a group begins.
std::vector<ByteSource::Range> cut_between(std::span<const std::span<const FileRecord>> groups,
                                           std::span<const ByteSource::Range> places) {
  std::vector<ByteSource::Range> cut;
  cut.reserve(places.size() + groups.size());
  auto group = groups.begin() + 1;
  for (ByteSource::Range place : places) {
    while (group != groups.end() && group->front().offset <= place.offset) {
      ++group;
    }
    for (; group != groups.end(); ++group) {
      const std::uint64_t before = group->front().offset - place.offset;
      if (before >= place.into.size()) break;
      cut.push_back({place.offset, place.into.first(before)});
      place = {place.offset + before, place.into.subspan(before)};
    }
    cut.push_back(place);
  }
  return cut;
}

// Assigns the places to the groups. No place may have bytes of several groups.
std::vector<Portion> portions_of(std::span<const std::span<const FileRecord>> groups,
                                 std::span<const ByteSource::Range> places) {
  std::vector<Portion> portions;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
    const std::uint64_t end = groups[i + 1].front().offset;
    const auto begins_before = [&](const ByteSource::Range& place) { return place.offset < end; };
    const auto behind = std::partition_point(places.begin(), places.end(), begins_before);
    portions.push_back({groups[i], {places.begin(), behind}});
    places = {behind, places.end()};
  }
  portions.push_back({groups.back(), places});
  return portions;
}

// Whether one portion has more than half of all bytes. If so, the call that reads this portion
// should have all threads.
bool has_most(std::span<const Portion> portions) {
  std::uint64_t most = 0;
  std::uint64_t all = 0;
  for (const Portion& portion : portions) {
    std::uint64_t bytes = 0;
    for (const FileRecord& record : portion.records) {
      bytes += record.size;
    }
    most = std::max(most, bytes);
    all += bytes;
  }
  return most > all / 2;
}

// Reads the portions with one call.
void add_crcs(const CheckedRead& read, std::span<const Portion> portions, CrcsOfRecords& crcs) {
  std::vector<RecordPiece> pieces;
  for (const Portion& portion : portions) {
    const std::size_t before = portion.records.data() - crcs.records().data();
    for (RecordPiece& piece : Cut(portion.places, ~std::uint64_t{0}).all(portion.records)) {
      if (piece.record != RecordPiece::kNoRecord) piece.record += before;
      pieces.push_back(piece);
    }
  }
  const auto memory_of = [&](std::span<std::byte> place) {
    return read.put.takes(place) ? std::span<std::byte>() : place;
  };
  std::vector<ByteSource::Part> parts;
  parts.reserve(pieces.size());
  for (const RecordPiece& piece : pieces) {
    parts.push_back({piece.offset, piece.size, memory_of(piece.place)});
  }
  read.file.read_each(parts, [&](std::size_t i, std::uint64_t begin, ByteView bytes) {
    const RecordPiece& piece = pieces[i];
    const bool is_checked = piece.record != RecordPiece::kNoRecord;
    if (is_checked) crcs.add(piece.record, piece.offset + begin, bytes);
    const bool is_put = !piece.place.empty() && parts[i].into.empty();
    if (is_put) read.put.put(piece.place.subspan(begin, bytes.size()), bytes);
    if (is_checked && read.on_progress) read.on_progress(bytes.size());
  });
}

}  // namespace

// Reads two portions with one call, one from either end of the file. The page cache mostly has the
// beginning of a file; this part is checked while the disk reads the rest. Two such calls run at a
// time on a file, so that the disk works while one call is being prepared or waits for its last
// bytes. A source that shows bytes in order is read from beginning to end.
std::vector<std::uint32_t> crcs_of(const CheckedRead& read,
                                   const std::vector<FileRecord>& records) {
  CrcsOfRecords crcs(records);
  const auto groups = groups_of(records);
  const std::vector<ByteSource::Range> places = cut_between(groups, read.places);
  const std::vector<Portion> portions = portions_of(groups, places);
  if (read.file.shows_in_order()) {
    for (const Portion& portion : portions) {
      add_crcs(read, {&portion, 1}, crcs);
    }
    return std::move(crcs).all();
  }
  const auto read_pair = [&](std::size_t i) {
    std::vector<Portion> both = {portions[i]};
    if (const std::size_t other = portions.size() - 1 - i; other != i) {
      both.push_back(portions[other]);
    }
    add_crcs(read, both, crcs);
  };
  const std::size_t pairs = (portions.size() + 1) / 2;
  const bool is_shared = is_file_source(read.file) && !has_most(portions);
  for_each_in_lanes(pairs > 1 && is_shared ? 2 : 1, pairs, read_pair);
  return std::move(crcs).all();
}

namespace {

// Computes the hashes of records whose bytes arrive one record after another, each in order.
class HashesInOrder {
 public:
  using Use = std::function<void(std::size_t index, const Xxh3& hash)>;

  explicit HashesInOrder(const Use& use) : use_(use) {}

  void add(std::size_t record, ByteView bytes) {
    if (record != record_) finish();
    record_ = record;
    hash_->write(bytes);
  }
  void finish() {
    if (record_ != RecordPiece::kNoRecord) use_(record_, *hash_);
    record_ = RecordPiece::kNoRecord;
    hash_.emplace();
  }

 private:
  const Use& use_;
  std::size_t record_ = RecordPiece::kNoRecord;
  std::optional<Xxh3> hash_{std::in_place};
};

// Reads all pieces with one call, from a source that shows bytes in order.
void hash_as_shown(const CheckedRead& read, std::span<const RecordPiece> pieces,
                   const HashesInOrder::Use& use) {
  std::vector<ByteSource::Part> parts;
  parts.reserve(pieces.size());
  for (const RecordPiece& piece : pieces) {
    parts.push_back({piece.offset, piece.size, piece.place});
  }
  HashesInOrder hashes(use);
  read.file.read_each(parts, [&](std::size_t i, std::uint64_t, ByteView bytes) {
    hashes.add(pieces[i].record, bytes);
    if (read.on_progress) read.on_progress(bytes.size());
  });
  hashes.finish();
}

}  // namespace

void for_each_xxh3(const CheckedRead& read, const std::vector<FileRecord>& records,
                   const std::function<void(std::size_t index, const Xxh3& hash)>& use) {
  std::vector<RecordPiece> pieces = cut(read, records);
  if (read.file.shows_in_order()) return hash_as_shown(read, pieces, use);
  const std::vector<std::span<RecordPiece>> runs = runs_of(pieces);
  const std::uint64_t most = runs.size() == 1 ? kAloneBatchBytes : kRecordBatchBytes;
  const auto check = [&](std::size_t i) {
    HashesInOrder hashes(use);
    std::vector<std::byte> own;
    for (const std::span<RecordPiece> batch : batches_of(runs[i], most)) {
      for_each_of(read, batch, own, [&](const RecordPiece& piece, ByteView bytes) {
        hashes.add(piece.record, bytes);
      });
    }
    hashes.finish();
  };
  for_each_parallel(runs.size(), check, read.file.size());
}

}  // namespace cairn

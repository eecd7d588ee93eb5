#include "checkpoint/open/verify/verify_dcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/open/verify/check_records.h"

namespace cairn {
namespace {

using dcp::Chunk;
using dcp::Folder;
using dcp::Item;

using Ranges = std::vector<ByteSource::Range>;

// Makes the tree during the check. If the check finds damage, an error of making the tree does not
// count.
class TreeBeside {
 public:
  explicit TreeBeside(const Folder& folder) : reader_(folder) {}

  // `opened`: the open piece, which is an object's file or a tensor.
  void add(const dcp::Piece& piece, const auto& opened) {
    if (problem_ || !dcp::TreeReader::needs(piece)) return;
    try {
      reader_.add(piece, opened);
    } catch (const Error&) {
      problem_ = std::current_exception();
    }
  }
  Value take() {
    if (problem_) std::rethrow_exception(problem_);
    return reader_.take();
  }

 private:
  dcp::TreeReader reader_;
  std::exception_ptr problem_;
};

struct Findings {
  std::map<std::string_view, std::vector<FileRecord>> files;  // records to verify, by file
  // With Scope::kWhatIsRead: the places that want bytes of each file. Empty with Scope::kAll.
  std::map<std::string_view, Ranges> places;
  VerifyReport& report;
  std::optional<TreeBeside> tree = std::nullopt;  // with Scope::kAll
};

bool is_wanted(const Ranges& places, std::uint64_t begin, std::uint64_t end) {
  const auto place = std::partition_point(
      places.begin(), places.end(),
      [&](const ByteSource::Range& before) { return before.offset + before.into.size() <= begin; });
  return place != places.end() && place->offset < end;
}

// For Scope::kWhatIsRead: takes the wanted ranges, and keeps only the pieces that have some of
// these ranges.
void keep_wanted(const Folder& folder, std::vector<dcp::Piece>& pieces, PendingReads& reads,
                 Findings& findings) {
  std::erase_if(pieces, [&](const dcp::Piece& piece) {
    const dcp::Location& location = piece.chunk->location;
    const auto [file, is_new] = findings.places.try_emplace(location.file);
    if (is_new) file->second = reads.take(*folder.file(location.file));
    return !is_wanted(file->second, location.offset, location.offset + location.size);
  });
  for (const auto& [file, places] : findings.places) {
    findings.files[file];  // wanted bytes in no record are read, too
  }
}

constexpr const char* kBadDecoded = "its decoded bytes do not have the CRC-32 that was written";

Damage damage_of(const Item& item, std::string_view file) {
  return {.record = std::string(file), .tensors = {std::string(item.fqn)}};
}

// Checks a chunk whose records are in no file.
void check_decoded(const TorchFile& file, const Item& item, const Chunk& chunk,
                   VerifyReport& report) {
  for (const FileRecord& record : file.records()) {
    if (file.matches_crc(record)) continue;
    Damage damage = damage_of(item, chunk.location.file);
    damage.what = kBadDecoded;
    damage.begin = chunk.location.offset;
    damage.end = chunk.location.offset + chunk.location.size;
    report.damage.push_back(std::move(damage));
  }
}

std::vector<FileRecord> records_in_data_file(const TorchFile& file, const Chunk& chunk) {
  std::vector<FileRecord> records = file.checked_records();
  for (FileRecord& record : records) {
    record.offset += chunk.location.offset;
  }
  return records;
}

// Returns the item whose bytes are at `offset` of a data file; nullptr if there is none.
const Item* item_at(const Folder& folder, std::string_view file, std::uint64_t offset) {
  const auto has_it = [&](const Chunk& chunk) {
    const dcp::Location& location = chunk.location;
    return location.file == file && location.offset <= offset &&
           offset - location.offset < location.size;
  };
  const auto found = std::ranges::find_if(folder.metadata().items, [&](const Item& item) {
    return std::ranges::any_of(item.chunks, has_it);
  });
  return found == folder.metadata().items.end() ? nullptr : &*found;
}

// Adds the records of a stored piece, with offsets in its data file.
void add_records(const TorchFile& file, const Item& item, const Chunk& chunk, Findings& findings) {
  if (!chunk.location.transforms.empty()) {  // its records are in no file
    check_decoded(file, item, chunk, findings.report);
    return;
  }
  std::vector<FileRecord>& known = findings.files[chunk.location.file];
  for (FileRecord& record : records_in_data_file(file, chunk)) {
    const auto places = findings.places.find(chunk.location.file);
    if (places != findings.places.end() &&
        !is_wanted(places->second, record.offset, record.offset + record.size)) {
      continue;
    }
    known.push_back(std::move(record));
  }
}

// Checks a stored piece: adds the piece's own damage to the report, its records to the records to
// verify, and the piece to the tree.
void check_chunk(const Folder& folder, const dcp::Piece& piece, const dcp::ChunkHeads& heads,
                 Verify how, Findings& findings) {
  VerifyReport& report = findings.report;
  if (piece.chunk->location.is_plain) {
    const dcp::OpenChunk tensor = folder.open_chunk(piece, heads);
    report.has_checksums = false;
    if (findings.tree) findings.tree->add(piece, tensor);
    return;
  }
  const TorchFile file = folder.open_chunk_file(piece, heads);
  std::optional<dcp::OpenChunk> tensor;
  if (piece.item->dtype) tensor = folder.open_chunk(piece, file);
  if (!file.has_checksums()) report.has_checksums = false;
  if (how != Verify::kQuick && file.has_checksums()) {
    add_records(file, *piece.item, *piece.chunk, findings);
  }
  if (!findings.tree) return;
  if (tensor) return findings.tree->add(piece, *tensor);
  findings.tree->add(piece, file);
}

}  // namespace

void check_data_records(const Folder* folder, const CheckedRead& read, std::string_view file,
                        const std::vector<FileRecord>& records, VerifyReport& report) {
  const std::vector<std::uint32_t> crcs = crcs_of(read, records);
  for (std::size_t i = 0; i < crcs.size(); ++i) {
    const FileRecord& record = records[i];
    if (crcs[i] == record.crc32) continue;
    Damage damage{
        .what = fmt::format("its CRC-32 is {:08x}, but {:08x} was written", crcs[i], record.crc32),
        .record = std::string(file),
        .begin = record.offset,
        .end = record.offset + record.size};
    const Item* const item = folder != nullptr ? item_at(*folder, file, record.offset) : nullptr;
    if (item != nullptr) damage.tensors.emplace_back(item->fqn);
    report.damage.push_back(std::move(damage));
  }
}

void expect_chunk(const VerifiedSource& data_file, const dcp::Piece& piece, const TorchFile& file) {
  if (!file.has_checksums()) return;
  const Chunk& chunk = *piece.chunk;
  if (chunk.location.transforms.empty()) {
    return data_file.add(records_in_data_file(file, chunk));
  }
  for (const FileRecord& record : file.records()) {
    if (!file.matches_crc(record)) throw CorruptError(kBadDecoded, data_file.name(), 0);
  }
}

std::optional<Value> verify_dcp(const Folder& folder, const DcpCheck& check, PendingReads& reads,
                                VerifyReport& report) {
  const bool is_of_all = check.scope == Scope::kAll;
  Findings findings{.files = {}, .places = {}, .report = report};
  std::vector<dcp::Piece> pieces;
  for (const Item& item : folder.metadata().items) {
    for (const Chunk& chunk : item.chunks) {
      pieces.push_back({&item, &chunk});
    }
  }
  report.records += pieces.size();
  if (!is_of_all) keep_wanted(folder, pieces, reads, findings);
  if (is_of_all) findings.tree.emplace(folder);
  folder.for_each(std::move(pieces), [&](const dcp::Piece& piece, const dcp::ChunkHeads& heads) {
    try {
      check_chunk(folder, piece, heads, check.how, findings);
    } catch (const CorruptError& e) {
      const dcp::Location& location = piece.chunk->location;
      Damage damage = damage_of(*piece.item, location.file);
      damage.what = e.what();
      damage.begin = e.offset();
      damage.end = location.offset + location.size;
      report.damage.push_back(std::move(damage));
    }
  });
  for (const auto& [name, known] : findings.files) {
    const VerifiedSource& file = check.data_file(name);
    const auto taken = findings.places.find(name);
    const CheckedRead read{
        .file = file.under(),
        .on_progress = check.on_progress,
        .places = taken == findings.places.end() ? reads.take(file) : std::move(taken->second)};
    file.check(read, known, report);
  }
  // A caller that reads only parts has the tree already.
  if (!report.ok() || !findings.tree) return std::nullopt;
  return findings.tree->take();
}

}  // namespace cairn

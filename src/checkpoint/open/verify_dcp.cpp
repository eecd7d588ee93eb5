#include "checkpoint/open/verify_dcp.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/open/check_records.h"

namespace cairn {
namespace {

using dcp::Chunk;
using dcp::Folder;
using dcp::Item;

// The records of a data file, and which item each is part of.
struct DataRecords {
  std::vector<FileRecord> records;
  std::vector<const Item*> items;
};

struct Findings {
  std::map<std::string_view, DataRecords> files;  // what is to be looked into
  VerifyReport& report;
};

Damage damage_of(const Item& item, std::string_view file) {
  return {.record = std::string(file), .tensors = {std::string(item.fqn)}};
}

void check_decoded(const TorchFile& file, const Item& item, const Chunk& chunk,
                   VerifyReport& report) {
  for (const FileRecord& record : file.records()) {
    if (file.matches_crc(record)) continue;
    Damage damage = damage_of(item, chunk.location.file);
    damage.what = "what it decodes to does not have the CRC-32 that was written";
    damage.begin = chunk.location.offset;
    damage.end = chunk.location.offset + chunk.location.size;
    report.damage.push_back(std::move(damage));
  }
}

// Adds the records of a stored piece, with offsets in its data file.
void add_records(const TorchFile& file, const Item& item, const Chunk& chunk, Findings& findings) {
  if (!chunk.location.transforms.empty()) {  // its records are in no file
    check_decoded(file, item, chunk, findings.report);
    return;
  }
  DataRecords& known = findings.files[chunk.location.file];
  for (FileRecord record : file.records()) {
    record.offset += chunk.location.offset;
    known.records.push_back(std::move(record));
    known.items.push_back(&item);
  }
}

void add_damaged_records(std::string_view file, const DataRecords& known,
                         const std::vector<std::uint32_t>& crcs, VerifyReport& report) {
  for (std::size_t i = 0; i < crcs.size(); ++i) {
    const FileRecord& record = known.records[i];
    if (crcs[i] == record.crc32) continue;
    Damage damage = damage_of(*known.items[i], file);
    damage.what =
        fmt::format("its CRC-32 is {:08x}, but {:08x} was written", crcs[i], record.crc32);
    damage.begin = record.offset;
    damage.end = record.offset + record.size;
    report.damage.push_back(std::move(damage));
  }
}

// Adds what is wrong with a stored piece as such, and the records to look into.
void check_chunk(const Folder& folder, const dcp::Piece& piece, const dcp::ChunkHeads& heads,
                 Verify how, Findings& findings) {
  VerifyReport& report = findings.report;
  if (piece.chunk->location.is_plain) {
    folder.open_chunk(piece, heads);
    report.has_checksums = false;
    return;
  }
  const TorchFile file = folder.open_chunk_file(piece, heads);
  if (piece.item->dtype) folder.open_chunk(piece, file);
  if (!file.has_checksums()) report.has_checksums = false;
  if (how != Verify::kQuick && file.has_checksums()) {
    add_records(file, *piece.item, *piece.chunk, findings);
  }
}

}  // namespace

void verify_dcp(const Folder& folder, Verify how,
                const std::function<void(std::uint64_t)>& on_progress, PendingReads& reads,
                VerifyReport& report) {
  Findings findings{.files = {}, .report = report};
  std::vector<dcp::Piece> pieces;
  for (const Item& item : folder.metadata().items) {
    for (const Chunk& chunk : item.chunks) {
      pieces.push_back({&item, &chunk});
    }
  }
  report.records += pieces.size();
  folder.for_each(std::move(pieces), [&](const dcp::Piece& piece, const dcp::ChunkHeads& heads) {
    try {
      check_chunk(folder, piece, heads, how, findings);
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
    const ByteSource& file = *folder.file(name);
    const CheckedRead read{.file = file, .on_progress = on_progress, .places = reads.take(file)};
    add_damaged_records(name, known, crcs_of(read, known.records), report);
  }
  if (report.ok()) folder.read();  // whether all of it makes the tree that load() gives
}

}  // namespace cairn

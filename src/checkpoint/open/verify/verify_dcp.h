// Verifies a torch.distributed.checkpoint folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/verify/check_records.h"
#include "checkpoint/open/verify/verified_source.h"
#include "format/dcp/folder.h"

namespace cairn {

// The items to check: all, or only those with bytes that `reads` want. With kWhatIsRead every byte
// is read once, and storages that have to be made (PendingReads) are not checked.
enum class Scope : std::uint8_t { kAll, kWhatIsRead };

struct DcpCheck {
  Verify how = Verify::kFull;
  Scope scope = Scope::kAll;
  const std::function<void(std::uint64_t)>& on_progress;  // may be null
  // A data file of the folder, by its name.
  std::function<const VerifiedSource&(std::string_view name)> data_file;
};

// Checks that every item is a torch.save file with the content that the metadata describes. Unless
// `how` is kQuick, every record must also match its CRC-32. With Scope::kAll and without damage,
// returns the tree that load() gives, and throws CorruptError if the tree cannot be made. Damage
// names the item, its file and the range in this file. Sets the report's fields about the content.
// Takes from `reads` the ranges that it checks.
std::optional<Value> verify_dcp(const dcp::Folder& folder, const DcpCheck& check,
                                PendingReads& reads, VerifyReport& report);

// The VerifiedSource::Check of the data file `file`. Damage names the item if `folder` is given.
void check_data_records(const dcp::Folder* folder, const CheckedRead& read, std::string_view file,
                        const std::vector<FileRecord>& records, VerifyReport& report);

// For a dcp::OnChunk, with the chunk's data file: from now on reads of the chunk are verified.
// Throws CorruptError if the chunk is encoded and does not decode to what was written.
void expect_chunk(const VerifiedSource& data_file, const dcp::Piece& piece, const TorchFile& file);

}  // namespace cairn

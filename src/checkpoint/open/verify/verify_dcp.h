// Checking a torch.distributed.checkpoint folder.
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

// Of which items: all, or those of which `reads` want something. Of these every byte is read once;
// what has to be made is not seen.
enum class Scope : std::uint8_t { kAll, kWhatIsRead };

struct DcpCheck {
  Verify how = Verify::kFull;
  Scope scope = Scope::kAll;
  const std::function<void(std::uint64_t)>& on_progress;  // may be null
  // A data file of the folder, by its name.
  std::function<const VerifiedSource&(std::string_view name)> data_file;
};

// Every item must be a torch.save file of what the metadata says; but with Verify::kQuick, every
// record of it must also match its CRC-32. Of Scope::kAll what has no damage makes the tree that
// load() gives, and is returned: CorruptError when it does not. Damage names the item, its file and
// the range in it. Sets what the report says of content. Takes from `reads` what it checks.
std::optional<Value> verify_dcp(const dcp::Folder& folder, const DcpCheck& check,
                                PendingReads& reads, VerifyReport& report);

// VerifiedSource::Check of the data file `file`. Damage names the item if there is a `folder`.
void check_data_records(const dcp::Folder* folder, const CheckedRead& read, std::string_view file,
                        const std::vector<FileRecord>& records, VerifyReport& report);

// For a dcp::OnChunk, with the chunk's data file: from now on reads of the chunk are verified.
// CorruptError if the chunk is encoded and does not decode to what was written.
void expect_chunk(const VerifiedSource& data_file, const dcp::Piece& piece, const TorchFile& file);

}  // namespace cairn

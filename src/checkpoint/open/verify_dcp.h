// Checking a torch.distributed.checkpoint folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/read_storages.h"
#include "format/dcp/folder.h"

namespace cairn {

// Of which items: all, or those of which `reads` want something. Of these every byte is read once;
// what has to be made is not seen.
enum class Scope : std::uint8_t { kAll, kWhatIsRead };

struct DcpCheck {
  Verify how = Verify::kFull;
  Scope scope = Scope::kAll;
  const std::function<void(std::uint64_t)>& on_progress;  // may be null
};

// Every item must be a torch.save file of what the metadata says; but with Verify::kQuick, every
// record of it must also match its CRC-32. Of Scope::kAll what has no damage makes the tree that
// load() gives, and is returned: CorruptError when it does not. Damage names the item, its file and
// the range in it. Sets what the report says of content. Takes from `reads` what it checks.
std::optional<Value> verify_dcp(const dcp::Folder& folder, const DcpCheck& check,
                                PendingReads& reads, VerifyReport& report);

}  // namespace cairn

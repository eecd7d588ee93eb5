// Checking a torch.distributed.checkpoint folder.
#pragma once

#include <functional>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/read_storages.h"
#include "format/dcp/folder.h"

namespace cairn {

// Every item must be a torch.save file of what the metadata says; with Verify::kFull, every record
// of it must also match its CRC-32. With Verify::kWhatIsRead that goes for what `reads` want alone,
// of which every byte is read once: nothing of `reads` may have to be made. Otherwise what has no
// damage makes the tree that load() gives: CorruptError when it does not. Damage names the item,
// its file and the range in it. Sets what the report says of content. Takes from `reads` what it
// checks; `on_progress` may be null.
void verify_dcp(const dcp::Folder& folder, Verify how,
                const std::function<void(std::uint64_t)>& on_progress, PendingReads& reads,
                VerifyReport& report);

}  // namespace cairn

// Writing a torch.distributed.checkpoint folder of one rank.
//
//  1. The folder is made; nothing of that name may be there before.
//  2. `__0_0.distcp` is written and made durable.
//  3. `.metadata` is renamed into place and made durable: until then a reader finds a checkpoint
//     that is not whole, and says so.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/value.h"

#include "base/file.h"

namespace cairn {

// Returns the bytes written. AlreadyExistsError; UnsupportedError for what such a folder cannot
// hold. On an error no file is left, at most the empty folder.
std::uint64_t write_dcp(FileSystem& files, const Value& value, const std::string& folder);

}  // namespace cairn

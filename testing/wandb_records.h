// The records in a file of W&B's, read by the rules of its format.
#pragma once

#include <string>
#include <vector>

#include "testing/event_records.h"

namespace cairn::testing {

// The messages of a file's bytes. Fails the test for a wrong CRC, a torn record, or one that
// crosses the end of a block.
std::vector<std::string> wandb_messages(const std::string& bytes);
// The messages in the file as `Record`s.
std::vector<ProtoFields> wandb_records(const std::string& path);

}  // namespace cairn::testing

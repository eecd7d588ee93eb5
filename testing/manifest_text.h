// The manifest that a checkpoint with these records has.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/plan/manifest.h"

namespace cairn::testing {

// Throws as ExtraRecords::finish() of it.
inline std::string manifest_text(const CheckpointInfo& info,
                                 const std::vector<FileRecord>& records) {
  const auto manifest = manifest_record(info);
  for (const FileRecord& record : records) {
    manifest->add(record);
  }
  return manifest->finish().at(0).second;
}

}  // namespace cairn::testing

// The record ".cairn/manifest.json" of a checkpoint: what it is, and a digest of the table of all
// other records, so that together with their CRCs every byte is accounted for. PyTorch ignores it.
// docs/checkpoints.md describes the fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/format/torch_file.h"

namespace cairn {

inline constexpr std::string_view kManifestRecord = ".cairn/manifest.json";

struct Manifest {
  std::string writer;  // "cairn 0.1.0"
  std::string layout;  // how the writer arranges a file: see kManifestLayout
  CheckpointInfo info;
  std::uint64_t records = 0;  // other than the manifest itself
  std::uint64_t bytes = 0;    // in them
  std::string digest;         // XXH3-128, 32 hex digits, over their names, offsets, sizes and CRCs
};

// The layout that TorchFilePlan writes: every byte outside the records follows from the records.
inline constexpr std::string_view kManifestLayout = "torch-zip-64";

// The manifest's text. It depends on the info and on the records alone: equal checkpoints have
// equal manifests. UsageError for a run name that is not UTF-8.
std::string manifest_text(const CheckpointInfo& info, const std::vector<FileRecord>& records);

// CorruptError for what no version would write, UnsupportedError naming the writer for a newer
// schema. Fields that this version does not know are passed over.
Manifest parse_manifest(std::string_view text);

// What differs between the manifest and `records` (without the manifest's own); empty when nothing.
std::string compare_with_records(const Manifest& manifest, const std::vector<FileRecord>& records);

}  // namespace cairn

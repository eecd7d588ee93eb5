// The record ".cairn/manifest.json" of a checkpoint. It describes the checkpoint and has a digest
// of the table of all other records. Together with the CRCs of the records, the digest covers every
// byte. PyTorch ignores this record. docs/formats/torch_file.md describes the fields.
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
  std::string layout;  // how the writer lays out a file: see kManifestLayout
  CheckpointInfo info;
  std::uint64_t records = 0;  // without the manifest itself
  std::uint64_t bytes = 0;    // in them
  std::string digest;         // XXH3-128 (32 hex digits) of all names, offsets, sizes and CRCs
};

// The layout that TorchPlan writes. In this layout, the records determine every byte outside the
// records.
inline constexpr std::string_view kManifestLayout = "torch-zip-64";

// Returns the manifest's text. The text depends only on `info` and `records`, so equal checkpoints
// have equal manifests. Throws UsageError if the run name is not UTF-8.
std::string manifest_text(const CheckpointInfo& info, const std::vector<FileRecord>& records);

// Throws CorruptError for a text that no version writes, and ReaderMissingError, which names the
// writer, for a newer schema. Ignores fields that this version does not know.
Manifest parse_manifest(std::string_view text);

// Describes the difference between the manifest and `records` (without the manifest's own record).
// Empty if there is none.
std::string compare_with_records(const Manifest& manifest, const std::vector<FileRecord>& records);

}  // namespace cairn

// What the files of a folder are, so that damage to any byte of them is found: a file beside them,
// which PyTorch passes over. For folders of torch.distributed.checkpoint, whose `.metadata` has no
// checksum. docs/formats/dcp.md.
//
//   {"schema":1,"writer":"cairn 0.1.0","xxh3_128":"<32 hex digits>","files":[
//    {"name":"__0_0.distcp","bytes":1560,"xxh3_128":"<32 hex digits>"}, ...]}
//
// The first xxh3_128 is of this text itself, computed with zeros in its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

inline constexpr const char* kFolderManifest = ".cairn_manifest.json";

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string xxh3_128;
};

struct FolderManifest {
  std::string writer;
  std::vector<ManifestFile> files;
};

std::string write_folder_manifest(const std::vector<ManifestFile>& files);

// CorruptError; UnsupportedError for one of a newer schema.
FolderManifest parse_folder_manifest(std::string_view text);

}  // namespace cairn

// The manifest of a folder lists its files with sizes and hashes, so that damage to any byte is
// found. PyTorch ignores this file. Folders of torch.distributed.checkpoint get one, because their
// `.metadata` has no checksum. docs/formats/dcp.md describes the manifest.
//
//   {"schema":1,"writer":"cairn 0.1.0","xxh3_128":"<32 hex digits>","files":[
//    {"name":"__0_0.distcp","bytes":1560,"xxh3_128":"<32 hex digits>"}, ...]}
//
// The first xxh3_128 is the hash of the manifest's text, computed with zeros in the place of the
// hash.
//
// If several ranks wrote the folder together, the manifest has "attempt", which differs for each
// save of the same name. The files may be on several machines. In that case each machine has the
// files of its own ranks and a manifest of these files, which names the machine that has
// `.metadata` ("publisher"). The manifest beside `.metadata` lists all files, each with its
// "machine".
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
  std::string machine = {};  // where the file is; empty: beside the manifest
};

struct FolderManifest {
  std::string writer = {};   // set by parse_folder_manifest()
  std::string attempt = {};  // empty: one process wrote it
  std::vector<ManifestFile> files = {};
  std::string publisher = {};  // in one machine's manifest: the machine that gets `.metadata`
};

std::string write_folder_manifest(const FolderManifest& manifest);

// Throws CorruptError. For a newer schema throws ReaderMissingError, which names the writer.
FolderManifest parse_folder_manifest(std::string_view text);

}  // namespace cairn

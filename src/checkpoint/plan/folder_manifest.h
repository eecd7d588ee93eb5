// What the files of a folder are, so that damage to any byte of them is found: a file beside them,
// which PyTorch passes over. For folders of torch.distributed.checkpoint, whose `.metadata` has no
// checksum. docs/formats/dcp.md.
//
//   {"schema":1,"writer":"cairn 0.1.0","xxh3_128":"<32 hex digits>","files":[
//    {"name":"__0_0.distcp","bytes":1560,"xxh3_128":"<32 hex digits>"}, ...]}
//
// The first xxh3_128 is of this text itself, computed with zeros in its place.
//
// One that several ranks wrote together also has "attempt", which tells it from every other save of
// the same name. Where its files lie on several machines, each has those of its own ranks, and such
// a manifest of them, which names the machine of `.metadata` ("publisher"); that beside `.metadata`
// lists all files, each with the "machine" it is on.
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
  std::string machine = {};  // where it lies; empty: beside the manifest
};

struct FolderManifest {
  std::string writer = {};   // of what is read
  std::string attempt = {};  // empty: one process wrote it
  std::vector<ManifestFile> files = {};
  std::string publisher = {};  // of a part: which machine is to have `.metadata`
};

std::string write_folder_manifest(const FolderManifest& manifest);

// CorruptError; ReaderMissingError, which names the writer, for one of a newer schema.
FolderManifest parse_folder_manifest(std::string_view text);

}  // namespace cairn

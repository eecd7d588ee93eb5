// The files in a tar, where they lie in its bytes. Nothing is extracted.
//
// Own, and not libarchive: a checkpoint needs ustar, pax and GNU's long names, 200 lines, and finds
// the file inside by its offset, so that it is read where it lies and never copied. libarchive
// gives streams only, and brings two dozen other formats that a hostile file could reach.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/byte_source.h"

namespace cairn::tar {

struct File {
  std::string name;  // "composer_states.pt", "folder/file": relative, without "." and ".."
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// By the checksum of the first header, or by its magic number.
bool is_tar(ByteView start);

// In the order in which they stand. Reads 64 KiB for each header, with those that are as near, and
// what follows the last file. CorruptError with offset; UnsupportedError naming a member that
// is neither a file nor a folder, that would lie outside the folder it is extracted to, or whose
// name is there twice.
std::vector<File> read_files(const ByteSource& tar);

}  // namespace cairn::tar

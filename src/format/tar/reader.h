// Finds the files in a tar, as ranges of its bytes. Extracts nothing.
//
// cairn has its own reader instead of libarchive. A checkpoint needs only ustar, pax and GNU's long
// names, 200 lines. cairn needs the offset of the inner file, to read that file in place without a
// copy. libarchive only gives streams, and its two dozen other formats could be reached by a
// hostile file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/byte_source.h"

namespace cairn::tar {

struct File {
  std::string name;  // "folder/file": relative, without "." and ".."
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Recognises a tar by the checksum of the first header, or by its magic number.
bool is_tar(ByteView start);

// Returns the files in the order of the tar. Reads 64 KiB at each header, unless an earlier read
// got that header, and the bytes after the last file. Throws CorruptError with an offset. Throws
// UnsupportedError that names a member which is neither a file nor a folder, would be extracted
// outside of the folder into which the tar is unpacked, or occurs twice.
std::vector<File> read_files(const ByteSource& tar);

}  // namespace cairn::tar

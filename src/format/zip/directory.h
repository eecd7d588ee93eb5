// Reads the directory of an untrusted zip.
//
//  1. The end record is searched from the end of the file (a few bytes of junk may follow it, as in
//     PyTorch). The Zip64 end record must agree with it.
//  2. The central directory must lie directly before the end records, and hold exactly the
//     announced entries.
//  3. Every entry must have a safe name, and must not be encrypted. All names have one prefix, and
//     no name occurs twice, ignoring case.
//  4. If the file has PyTorch's layout, to the byte, the start of each record's bytes follows from
//     the directory. Otherwise the local headers are read, and checked, too.
//  5. Records must not overlap each other or the directory.
//
// Later code trusts these ranges. check_local_headers() checks that every local header agrees with
// its entry. This takes reads in every part of the file.
#pragma once

#include <string>
#include <vector>

#include "format/zip/layout.h"
#include "io/bytes/windows.h"

namespace cairn::zip {

struct Directory {
  std::string prefix = {};
  std::vector<Entry> entries = {};  // in file order
  DirectoryExtent extent = {};

  // The size of the entry's full name in the zip.
  std::size_t name_size(const Entry& entry) const {
    return prefix.size() + 1 + entry.record.name.size();
  }
};

// Throws CorruptError with the offset of the fault, UnsupportedError for an encrypted entry.
// Messages do not name the file. Costs two reads for a file of PyTorch's layout. The first is of
// both ends of the file. The second is of the rest of the directory, and the rest of the pickle,
// which PyTorch writes first (unless it has more than 64 MiB). A third read happens only if the end
// lacked a part of the directory, and the pickle is 1.5 times as long as its beginning promised.
Directory read_directory(Windows& source);
// Does the first read of read_directory(), for a caller that looks at the file's beginning earlier.
// Reads nothing if the first bytes and the last KiB are in memory already: the code that read those
// bytes knows what is needed.
void fetch_ends(Windows& source);

// Returns the first compressed entry, nullptr if there is none. TorchScript's code and extra files
// do not count: PyTorch itself compresses them.
const Entry* find_compressed(const Directory& directory);

// Returns the names of the records of any zip, with their folders, of which there may be several.
// Throws CorruptError, UnsupportedError as read_directory() does.
std::vector<std::string> read_names(Windows& source);

// Throws CorruptError if a local header does not agree with its entry.
void check_local_headers(const Directory& directory, const ByteSource& source);

}  // namespace cairn::zip

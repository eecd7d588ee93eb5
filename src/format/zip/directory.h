// Reads the directory of a zip whose bytes nobody has checked.
//
//  1. The end record is looked for from the back (a few bytes of junk may follow it, as PyTorch
//     accepts), then the Zip64 end record, which must agree with it.
//  2. The central directory must lie directly before them and hold exactly the announced entries.
//  3. Every entry: not encrypted, a safe name, one common prefix, no name twice, also not
//     in another case.
//  4. Where each record's bytes begin follows from the directory when the file is laid out as
//     PyTorch's are, to the byte; otherwise the local headers are read, and checked, too.
//  5. No two records may overlap, nor a record and the directory.
//
// Everything later trusts these ranges. That every local header agrees with its entry is for
// check_local_headers(), which reads something of every part of the file.
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

  // Of its name in the zip.
  std::size_t name_size(const Entry& entry) const {
    return prefix.size() + 1 + entry.record.name.size();
  }
};

// CorruptError with the offset of what is wrong; UnsupportedError for an encrypted entry. Messages
// do not name the file. Two reads for a file of PyTorch's layout: the ends, and what is left of the
// directory and of what PyTorch writes first, the pickle, unless it has more than 64 MiB. A third
// one only when the end did not have the whole directory, and the pickle turns out half as long
// again as its beginning promised.
Directory read_directory(Windows& source);
// The first of them, for who looks at the file's beginning before. Nothing, where its first bytes
// and its last KiB are there already: who put them there knows what is needed.
void fetch_ends(Windows& source);

// The first entry that is compressed, other than the code and the extra files of TorchScript, which
// PyTorch itself compresses. nullptr if there is none.
const Entry* find_compressed(const Directory& directory);

// The names of the records, of a zip of any kind: with their folders, which need not be one.
// CorruptError, UnsupportedError as above.
std::vector<std::string> read_names(Windows& source);

// CorruptError when one does not agree with its entry.
void check_local_headers(const Directory& directory, const ByteSource& source);

}  // namespace cairn::zip

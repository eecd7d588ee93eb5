// Turns a zip of compressed records into the zip that torch.save would have written. Such zips come
// from a zip tool: a checkpoint was unpacked and packed again.
#pragma once

#include <memory>

#include "cairn/byte_source.h"

#include "format/zip/directory.h"

namespace cairn::zip {

// Writes the same records, stored, in the layout and order of torch.save, so that a manifest of
// cairn's describes them again. Streams: memory does not depend on their sizes. CorruptError for a
// record whose bytes are not those of its size and CRC (0: its writer gave it none);
// UnsupportedError for a compression other than deflate. Messages do not name the file.
void write_stored(const Directory& directory, const std::shared_ptr<const ByteSource>& source,
                  ByteSink& out);

}  // namespace cairn::zip

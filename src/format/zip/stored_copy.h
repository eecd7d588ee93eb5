// Turns a zip of compressed records into the zip that torch.save would have written. Zip tools make
// such files when a checkpoint is unpacked and packed again.
#pragma once

#include <memory>

#include "cairn/byte_source.h"

#include "format/zip/directory.h"

namespace cairn::zip {

// Writes the same records uncompressed, in the layout and order of torch.save, so that cairn's
// manifest in the zip describes them again. Works in a stream, with memory that does not depend on
// sizes. Throws CorruptError for a record that does not match its size or CRC (a CRC of 0 means
// that there is none), and UnsupportedError for a compression other than deflate. Messages do not
// name the file.
void write_stored(const Directory& directory, const std::shared_ptr<const ByteSource>& source,
                  ByteSink& out);

}  // namespace cairn::zip

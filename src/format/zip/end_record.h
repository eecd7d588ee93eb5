// Step 1 of reading a zip's directory: where the directory is.
#pragma once

#include "format/zip/layout.h"

namespace cairn::zip {

// The extent that the end records give, checked to lie directly before them. CorruptError, with
// offset, when there is no end record or the records contradict each other.
DirectoryExtent find_directory(ByteView bytes);

}  // namespace cairn::zip

// Data files that hold tensors as safetensors: PyTorch's FileSystemWriter with
// SerializationFormat.SAFETENSORS (2.8 and later). docs/formats/dcp.md.
#pragma once

#include "format/dcp/chunk_heads.h"

namespace cairn::dcp {

// Gives every chunk that is stored so the place of its elements. The metadata give the bytes of the
// elements as its length, which a torch.save file always exceeds, and as its offset the start of
// the whole safetensors file; with PyTorch's zstd extension an empty frame stands there, and the
// file is behind all of those. `files` are the data files, which must reach as far as the chunks'
// locations: a read of those that hold such chunks, and one for the frames. CorruptError naming the
// data file, and the offset in it; UnsupportedError for a dtype that no PyTorch tensor has.
void locate_in_safetensors(Metadata& metadata, const FilesByName& files);

}  // namespace cairn::dcp

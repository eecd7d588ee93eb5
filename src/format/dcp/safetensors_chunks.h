// Data files that hold tensors as safetensors: PyTorch's FileSystemWriter with
// SerializationFormat.SAFETENSORS (2.8 and later). docs/formats/dcp.md.
#pragma once

#include "format/dcp/chunk_heads.h"

namespace cairn::dcp {

// Sets the location of each chunk in a safetensors file to the place of its elements. The metadata
// gives such a chunk the size of its elements alone, which a torch.save file always exceeds. The
// offset in the metadata is the start of the whole safetensors file. With PyTorch's zstd extension,
// there is an empty frame at that offset, and the safetensors file follows all the empty frames.
//
// `files` are the data files, which must be long enough for the chunks' locations. Costs one read
// of each file that holds such chunks, and one for the frames. Throws CorruptError with the data
// file's name and the offset in it, UnsupportedError for a dtype that no PyTorch tensor has.
void locate_in_safetensors(Metadata& metadata, const FilesByName& files);

}  // namespace cairn::dcp

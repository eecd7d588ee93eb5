// Data files that hold tensors as safetensors: PyTorch's FileSystemWriter with
// SerializationFormat.SAFETENSORS (2.8 and later). docs/formats/dcp.md.
#pragma once

#include <functional>
#include <string_view>

#include "cairn/bytes.h"

#include "format/sharded/metadata.h"

namespace cairn::sharded {

// Whether the chunk is stored so: the metadata then give the bytes of its elements as its length,
// which a torch.save file always exceeds, and the start of the whole safetensors file as its
// offset.
bool is_in_safetensors(const Item& item, const Chunk& chunk);

// Gives every such chunk the place of its elements. `file` gives the whole data files, which must
// reach as far as the chunks' locations. CorruptError naming the data file, and the offset in it;
// UnsupportedError for a dtype that no PyTorch tensor has.
void locate_in_safetensors(Metadata& metadata,
                           const std::function<SharedBytes(std::string_view name)>& file);

}  // namespace cairn::sharded

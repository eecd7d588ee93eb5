#include "format/dcp/metadata/metadata_classes.h"

#include <array>

namespace cairn::dcp {
namespace {

using pickle::Global;
using pickle::make_object;

constexpr const char* kMetadata = "torch.distributed.checkpoint.metadata";
constexpr const char* kMetadata113 = "torch.distributed._shard.checkpoint.metadata";
constexpr const char* kTensor22 = "torch.distributed._shard.sharded_tensor.metadata";

constexpr std::array kClasses = {
    Global{kMetadata, "Metadata", make_object},
    Global{kMetadata, "TensorStorageMetadata", make_object},
    Global{kMetadata, "BytesStorageMetadata", make_object},
    Global{kMetadata, "ChunkStorageMetadata", make_object},
    Global{kMetadata, "MetadataIndex", make_object},
    Global{kMetadata, "StorageMeta", make_object},
    Global{kMetadata, "TensorProperties", make_object},
    Global{kMetadata, "_MEM_FORMAT_ENCODING", make_object},
    Global{"torch.distributed.checkpoint.filesystem", "_StorageInfo", make_object},
    // PyTorch 1.13
    Global{kMetadata113, "Metadata", make_object},
    Global{kMetadata113, "TensorStorageMetadata", make_object},
    Global{kMetadata113, "BytesStorageMetadata", make_object},
    Global{kMetadata113, "ChunkStorageMetadata", make_object},
    Global{kMetadata113, "MetadataIndex", make_object},
    Global{"torch.distributed._shard.checkpoint.filesystem", "_StorageInfo", make_object},
    // up to 2.2
    Global{kTensor22, "TensorProperties", make_object},
    Global{kTensor22, "MEM_FORMAT_ENCODING", make_object},
    // Classes of values that nothing here depends on. Python 3.11 writes a member of an enum as
    // getattr(class, name): getattr, too, only becomes an object.
    Global{"torch.serialization", "_get_layout", make_object},
    Global{"builtins", "getattr", make_object},
    Global{"pathlib", "PosixPath", make_object},
    Global{"pathlib", "PurePosixPath", make_object},
    Global{"pathlib", "WindowsPath", make_object},
    Global{"pathlib", "PureWindowsPath", make_object},
    Global{"pathlib._local", "PosixPath", make_object},
    Global{"pathlib._local", "PurePosixPath", make_object},
    Global{"pathlib._local", "WindowsPath", make_object},
    Global{"pathlib._local", "PureWindowsPath", make_object},
};

}  // namespace

std::span<const Global> metadata_classes() { return kClasses; }

}  // namespace cairn::dcp

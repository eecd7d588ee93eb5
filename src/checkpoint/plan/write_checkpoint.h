// Encodes a Value straight into a file that is replaced atomically.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/format/torch_file.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/plan/file_image.h"
#include "checkpoint/plan/save_job.h"
#include "storage/publish/publisher.h"

namespace cairn {

// Writes the job's value to its path, as save() promises, and does no other step of the job.
// Returns the size of the file. Publisher::publish() calls this. `image`: the snapshot to write in
// place of the value; it can be used once. The live tensors are released before the first byte is
// written. Null: writes from the tensors' own memory. `encoded`: memory of the previous saves'
// encoding; may be null.
std::uint64_t write_checkpoint(Publisher& publisher, const SaveJob& job, FileImage* image,
                               pickle::EncodeMemory* encoded);

// Options for a torch.save file with a manifest that contains `info`.
TorchFileWriteOptions with_manifest(CheckpointInfo info);

// Throws the UsageError that writing a file of this name would throw for its extension: the
// extension is unknown (the message lists the known ones), or it needs a program that is not
// installed.
void check_extension(const std::string& path);

}  // namespace cairn

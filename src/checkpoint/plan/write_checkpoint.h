// Encoding a Value straight into a file that is replaced atomically.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/format/torch_file.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/plan/file_image.h"
#include "checkpoint/plan/save_job.h"
#include "storage/publish/publisher.h"

namespace cairn {

// Writes the job's value to its path, as save() promises, and nothing else of the job; returns the
// size of the file. This is what Publisher::publish() is given.
// `image`: the snapshot in place of the value, once: the live tensors are let go of before the
// first byte is written. Null: from the tensors' own memory. `encoded`: what is known of the saves
// before; null: nothing.
std::uint64_t write_checkpoint(Publisher& publisher, const SaveJob& job, FileImage* image,
                               pickle::EncodeMemory* encoded);

// Of a torch.save file: with a manifest that says this of it.
TorchFileWriteOptions with_manifest(CheckpointInfo info);

// What writing a file of this name would say of its extension: UsageError that lists all there are,
// or names the program that is needed and not installed.
void check_extension(const std::string& path);

}  // namespace cairn

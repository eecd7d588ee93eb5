// Encoding a Value straight into a file that is replaced atomically.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/storage/object_store.h"

#include "checkpoint/plan/file_image.h"
#include "checkpoint/plan/save_job.h"

namespace cairn {

// Writes the job's value to its path, as save() promises, and nothing else of the job; returns the
// size of the file. With `image`, once, the snapshot in place of the value: lets go of the live
// tensors before the first byte is written.
std::uint64_t write_checkpoint(ObjectStore& store, const SaveJob& job, FileImage* image);

// What writing a file of this name would say of its extension: UsageError that lists all there are,
// or names the program that is needed and not installed.
void check_extension(const std::string& path);

}  // namespace cairn

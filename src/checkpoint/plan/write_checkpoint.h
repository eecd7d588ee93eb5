// Encoding a Value straight into a file that is replaced atomically.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cairn/format/torch_file.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/plan/file_image.h"
#include "checkpoint/plan/save_job.h"
#include "io/retry.h"
#include "storage/publish.h"

namespace cairn {

// How it is written, besides what the job says.
struct HowToWrite {
  // The snapshot in place of the job's value, once: the live tensors are let go of before the first
  // byte is written. Null: from the tensors' own memory.
  FileImage* image = nullptr;
  // What is known of the saves before; nullptr: nothing.
  pickle::EncodeMemory* encoded = nullptr;
  // Of a store that may_be_far(): published and verified, as publish.h says. Null: written
  // once.
  const RetryPolicy* retry = nullptr;
  OwnObjects* own = nullptr;                       // with `retry`, as publish.h has them
  std::function<void()> check_given_up = nullptr;  // asked before each block; throws
};

// Writes the job's value to its path, as save() promises, and nothing else of the job; returns the
// size of the file and, when `how.retry` is set, its version.
Published write_checkpoint(ObjectStore& store, const SaveJob& job, const HowToWrite& how);

// Of a torch.save file: with a manifest that says this of it.
TorchFileWriteOptions with_manifest(CheckpointInfo info);

// What writing a file of this name would say of its extension: UsageError that lists all there are,
// or names the program that is needed and not installed.
void check_extension(const std::string& path);

}  // namespace cairn

// The memory of a device (a GPU) as storages of the core, copied to the host when they are read.
//
// clang-format off
//  1. Making one copies nothing and waits for nothing: it keeps the memory alive, and notes on
//     which stream the program was computing.
//  2. All storages of a device are ranges of one source. So whoever gathers many, as a snapshot
//     does, reads them with one call.
//  3. That call waits, on the device, for what was enqueued before: on the caller's current stream
//     and on those of 1.
//  4. It copies through two staging buffers in pinned memory, each filled on a side stream of its
//     own: while the device fills one, what is in the other goes to its places.
//  5. It returns when all bytes are there, so what is enqueued later is not seen. On an error, too,
//     it waits until the device is done with memory and buffers.
// clang-format on
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <memory>

#include "cairn/tensor.h"

namespace cairn {

// `memory` lies on another device than the CPU, one that has streams; UsageError says how to save
// what does not. Reading it throws StorageError when the device fails, and UsageError when the
// memory has become smaller since. The location is the device's name, "cuda:0".
std::shared_ptr<const Storage> device_storage(const c10::Storage& memory);

// Notes the current stream of this thread for all storages of `device` that live: what is on it
// when they are read is waited for. device_storage() does it, too. A stream that is not libtorch's
// own must outlive the storages.
void note_stream(c10::Device device);

// to.copy_(from) into memory that was made for it and that nobody uses yet. Much memory of the host
// goes to a device as in 4, and is there when this returns. What libtorch throws.
void copy_to_new(at::Tensor& to, const at::Tensor& from);

}  // namespace cairn

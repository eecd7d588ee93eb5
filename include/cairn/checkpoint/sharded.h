// Reading what one process needs of a checkpoint, and no more: of tensors that are spread over many
// ranks, the part that this rank has, whoever saved it in whatever parts, or whole.
//
//   const Checkpoint checkpoint = open_checkpoint("s3://bucket/run/ep1-ba10");
//   std::vector<float> rows(25 * 512);                    // rows 50 to 74 of 100
//   read_parts(checkpoint, {{.name = "state.model.fc.weight",
//                            .dtype = DType::kFloat32,
//                            .global_shape = {100, 512},
//                            .offsets = {50, 0},
//                            .shape = {25, 512},
//                            .into = std::as_writable_bytes(std::span(rows))}});
//
// docs/distributed.md says what a checkpoint of many ranks is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/tensor.h"

namespace cairn {

// A part of a tensor of a checkpoint, and where its elements go. A whole tensor is the part at 0
// that is as large.
struct PartRead {
  // The keys that lead to it, joined by dots: "state.model.fc.weight". A list's items are numbers.
  std::string name;
  DType dtype = DType::kFloat32;  // of the stored tensor, too: nothing is converted
  Dims global_shape = {};         // of the whole tensor
  Dims offsets = {};              // where the part begins, in elements
  Dims shape = {};                // of the part; one of size 0 is nothing to read
  // Room for just the part's elements. They stand there in row-major order, or, with `strides`
  // (in elements, one for each dimension), where those say; then the room is up to the last one.
  std::span<std::byte> into = {};
  Dims strides = {};
};

// Reads parts of a checkpoint of any format: of one in many files the files and ranges that have
// some of them, near ones together, and nothing else of its tensors. Straight into their places,
// unless they have strides.
//
// With Verify::kWhatIsRead what is read is verified as it passes, by the format's checksums, which
// are of what one rank stored of one tensor: of a piece that is wanted in part all of it is read
// for that. With Verify::kQuick only what is wanted is read, and nothing verified. With
// Verify::kFull all of the checkpoint. Damage is a result; then, and after an error, what stands in
// the places is undefined.
//
// MismatchError, before anything is read, naming all that are not there, or of another dtype or
// shape. UsageError for a part outside of its tensor, or a place of another size. StorageError;
// CorruptError for what says where things are; UnsupportedError for a tree that repeats itself out
// of all proportion to its size.
VerifyReport read_parts(const Checkpoint& checkpoint, const std::vector<PartRead>& parts,
                        Verify how = Verify::kWhatIsRead);

// A part of a tensor of a Value that load() gave: offsets and shape as in PartRead.
struct PartOf {
  TensorView whole;
  Dims offsets = {};
  Dims shape = {};
};

// Each as a contiguous tensor with its `part`, whose bytes are read when they are asked for, and
// then no others: for Checkpoint::read(), or to put in the whole one's place in a Value. Where a
// tensor's pieces lie is looked up for all of them together. UsageError for a part outside of its
// tensor; CorruptError, StorageError.
std::vector<TensorView> parts_of(const std::vector<PartOf>& parts);

}  // namespace cairn

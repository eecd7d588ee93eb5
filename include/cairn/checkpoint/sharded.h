// Reads only the parts of a checkpoint that one process needs: this rank's part of each tensor,
// regardless of how the tensor was split when it was saved.
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
// docs/distributed.md describes checkpoints of many ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/export.h"
#include "cairn/tensor.h"

namespace CAIRN_PUBLIC cairn {

// A part of a tensor of a checkpoint, and the destination of its elements. A part at offsets 0 with
// the tensor's own shape is the whole tensor.
struct PartRead {
  // The keys that lead to the tensor, joined by dots: "state.model.fc.weight". A list's items are
  // numbers.
  std::string name;
  DType dtype = DType::kFloat32;  // must be the stored dtype: nothing is converted
  Dims global_shape = {};         // of the whole tensor
  Dims offsets = {};              // where the part begins, in elements
  Dims shape = {};                // of the part; a dimension of 0: nothing is read
  // The destination. Without `strides` it has room for exactly the part's elements, in row-major
  // order. With `strides` (in elements, one for each dimension) it ends after the last element.
  std::span<std::byte> into = {};
  Dims strides = {};
};

// Reads parts of a checkpoint of any format, straight into destinations that have no strides. If
// the checkpoint has many files, reads only the files and ranges that hold some of the parts.
// Ranges that lie close together are read as one.
//
// With Verify::kWhatIsRead, verifies the bytes as they are read, by the format's checksums. A
// checksum covers the piece of a tensor that one rank stored, so the whole piece is read even if
// only a part is wanted. With Verify::kQuick, reads only the parts and verifies nothing. With
// Verify::kFull, verifies all of the checkpoint. Damage is a result, not an error. After damage or
// an error the content of the destinations is undefined.
//
// Throws MismatchError, before anything is read, naming all tensors that are missing or have
// another dtype or shape. Throws UsageError for a part outside of its tensor or a destination of
// another size; StorageError; CorruptError for damage in the description of the tensors;
// UnsupportedError for a tree that repeats itself out of proportion to its size (kMaxRepetition).
VerifyReport read_parts(const Checkpoint& checkpoint, const std::vector<PartRead>& parts,
                        Verify how = Verify::kWhatIsRead);

// A part of a tensor of a Value that load() returned: offsets and shape as in PartRead.
struct PartOfTensor {
  TensorView whole;
  Dims offsets = {};
  Dims shape = {};
};

using PartOf [[deprecated("use PartOfTensor")]] = PartOfTensor;

// Returns each part as a contiguous tensor whose `part` says which part it is. Only the bytes of
// the part are read, when they are asked for. Pass the tensor to Checkpoint::read(), or put it in
// the place of the whole tensor in a Value. The pieces of all tensors are looked up together.
// Throws UsageError for a part outside of its tensor; CorruptError, StorageError.
std::vector<TensorView> tensors_of_parts(const std::vector<PartOfTensor>& parts);
[[deprecated("use tensors_of_parts()")]] inline auto parts_of(const std::vector<PartOfTensor>& p) {
  return tensors_of_parts(p);
}

}  // namespace cairn

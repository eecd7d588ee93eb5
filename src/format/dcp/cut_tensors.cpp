#include "format/dcp/cut_tensors.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "cairn/error.h"

#include "format/dcp/copy_box.h"
#include "format/dcp/metadata/layout.h"
#include "value/tensor/strided.h"

namespace cairn::dcp {
namespace {

// A box of a tensor whose storage is one piece, with any strides.
class PartStorage final : public AssembledStorage {
 public:
  PartStorage(const TensorView& tensor, Box box)
      : AssembledStorage(box_bytes(box, tensor.dtype), tensor.storage->location()),
        tensor_(tensor),
        box_(std::move(box)) {}

  bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const override {
    if (tensor_.storage->source() == nullptr) return false;
    const OpenChunk whole = open();
    return dcp::add_ranges({&whole, 1}, box_, into, ranges);
  }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    const OpenChunk whole = open();
    copy_elements({&whole, 1}, {tensor_.dtype, box_}, offset, into);
  }

 private:
  // A storage that can only be loaded whole is loaded at each call.
  OpenChunk open() const {
    const bool is_range = tensor_.storage->source() != nullptr;
    return {.box = {Dims(tensor_.shape.size(), 0), tensor_.shape},
            .tensor = tensor_,
            .bytes = is_range ? SharedBytes() : tensor_.storage->bytes()};
  }

  TensorView tensor_;
  Box box_;
};

bool is_whole_storage(const TensorView& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset == 0 &&
         tensor.storage->size() == byte_size(tensor);
}

void check_cut(const TensorCut& cut) {
  const TensorView& tensor = *cut.tensor;
  if (tensor.quantizer != nullptr || elements_per_byte(tensor.dtype) != 1) {
    throw UnsupportedError("a quantized tensor cannot be cut into parts");
  }
  if (tensor.part != nullptr)
    throw UsageError("the tensor is a part already, and cannot be cut again");
  try {
    check_inside(cut.box, tensor.shape);
  } catch (const CorruptError& e) {
    throw UsageError(e.what());  // the caller's box, not a file's
  }
  check_bounds(tensor);
}

using Cuts = std::vector<PiecesStorage::Cut>;
struct OwnersCuts {
  Cuts cuts;
  std::vector<std::size_t> places;
};

}  // namespace

std::vector<TensorView> cut_tensors(std::span<const TensorCut> cuts) {
  std::vector<TensorView> parts(cuts.size());
  std::unordered_map<const void*, OwnersCuts> by_owner;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const auto& [tensor, box] = cuts[i];
    check_cut(cuts[i]);
    TensorView& part = parts[i];
    part = {.dtype = tensor->dtype, .shape = box.sizes, .strides = contiguous_strides(box.sizes)};
    part.requires_grad = tensor->requires_grad;
    part.part = std::make_shared<const TensorPart>(TensorPart{tensor->shape, box.offsets});
    if (box_bytes(box, tensor->dtype) == 0) {
      part.storage = storage_of(SharedBytes());
      continue;
    }
    const auto* pieces = dynamic_cast<const PiecesStorage*>(tensor->storage.get());
    if (pieces == nullptr || !is_whole_storage(*tensor)) {
      part.storage = std::make_shared<const PartStorage>(*tensor, box);
      continue;
    }
    OwnersCuts& owners = by_owner[pieces->owner()];
    owners.cuts.push_back({pieces, box.offsets, box.sizes});
    owners.places.push_back(i);
  }
  for (const auto& [owner, owners] : by_owner) {
    auto storages = owners.cuts.front().storage->cut(owners.cuts);
    for (std::size_t i = 0; i < storages.size(); ++i) {
      parts[owners.places[i]].storage = std::move(storages[i]);
    }
  }
  return parts;
}

}  // namespace cairn::dcp

#include "format/dcp/data_plan.h"

#include <algorithm>
#include <memory>

#include "cairn/error.h"

#include "format/pickle/write/encode.h"
#include "io/memory/spill.h"
#include "value/tensor/element_reader.h"
#include "value/tensor/strided.h"
#include "value/tensor/tensor_stream.h"

namespace cairn::dcp {
namespace {

// Only the tensor's own elements, in row-major order.
class ElementsStorage final : public Storage {
 public:
  ElementsStorage(TensorView tensor, std::string scratch_folder)
      : Storage(byte_size(tensor), "cpu"),
        tensor_(std::move(tensor)),
        scratch_folder_(std::move(scratch_folder)) {}

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    fill_from_elements(item_size(tensor_.dtype), offset, into,
                       [&](std::uint64_t first, std::span<std::byte> out) {
                         ElementReader(tensor_).read(first, out);
                       });
  }
  // Uses a scratch file, unless the elements are few or already contiguous.
  SharedBytes load() const override {
    if (size() <= kMaxBytesInMemory || tensor_.is_contiguous()) return tensor_.contiguous_bytes();
    return spill(size(), scratch_folder_,
                 [&](ByteSink& sink) { write_elements(tensor_, tensor_.storage->bytes(), sink); });
  }

 private:
  TensorView tensor_;
  std::string scratch_folder_;
};

void check_place(const TensorView& tensor) {
  try {
    check_bounds(tensor);
  } catch (const CorruptError& e) {
    throw UsageError(e.what());  // the caller's tensor, not a file's
  }
}

bool has_only_its_elements(const TensorView& tensor) {
  return tensor.is_contiguous() && tensor.storage && tensor.storage_offset == 0 &&
         tensor.storage->size() == byte_size(tensor);
}

// Throws unless the tensor is as as_chunk() makes it. Tensors of a kind share a
// layout, and that relies on this.
void check_is_chunk(const TensorView& tensor, const std::string& name) {
  const bool is_plain =
      !tensor.requires_grad && !tensor.is_parameter && tensor.quantizer == nullptr;
  if (is_plain && has_only_its_elements(tensor)) return;
  throw UsageError(name + ": a data file takes only plain, contiguous tensors without other " +
                   "elements in their storage; convert this one with as_chunk()");
}

}  // namespace

Value as_chunk(const TensorView& tensor, const std::string& scratch_folder) {
  TensorView chunk = tensor;
  chunk.requires_grad = false;
  chunk.is_parameter = false;
  if (tensor.quantizer != nullptr) {
    throw UnsupportedError("a quantized tensor: torch.distributed.checkpoint fails to read one");
  }
  if (tensor.part != nullptr) check_place(tensor);
  chunk.part = nullptr;
  if (has_only_its_elements(tensor)) return chunk;
  chunk.storage_offset = 0;
  chunk.strides = contiguous_strides(tensor.shape);
  chunk.storage = std::make_shared<const ElementsStorage>(tensor, scratch_folder);
  return chunk;
}

std::shared_ptr<DataPlan::Layout> DataPlan::lay_out(const Value& value, const std::string& name) {
  try {
    return std::make_shared<Layout>(TorchPlan(pickle::encode(value), {}));
  } catch (Error& e) {
    e.add_context(name);
    throw;
  }
}

std::shared_ptr<const DataPlan::Layout> DataPlan::layout_of_chunk(const Value& value,
                                                                  const std::string& name) {
  const TensorView& chunk = value.as_tensor();
  check_is_chunk(chunk, name);
  auto& known = chunks_[{chunk.dtype, chunk.storage->location(), chunk.shape, chunk.strides}];
  if (known == nullptr) {
    const auto made = lay_out(value, name);
    made->plan.set_storage(0, nullptr);
    known = made;
  }
  return known;
}

DataPlan::Place DataPlan::add(const Value& value, std::string name) {
  const bool is_chunk = value.is_tensor();
  auto layout = is_chunk ? layout_of_chunk(value, name) : lay_out(value, name);
  const Place place{.offset = size_, .size = layout->size};
  const std::size_t first_part = parts_.size();
  for (Part part : layout->plan.parts()) {
    part.offset += size_;
    if (is_chunk) part.storage = value.as_tensor().storage;
    parts_.push_back(std::move(part));
  }
  size_ += place.size;
  files_.push_back({std::move(layout), std::move(name), first_part});
  return place;
}

std::size_t DataPlan::file_of(std::size_t part) const {
  const auto behind = std::upper_bound(
      files_.begin(), files_.end(), part,
      [](std::size_t number, const File& file) { return number < file.first_part; });
  return static_cast<std::size_t>(behind - files_.begin()) - 1;
}

// Appends the rest of the file that holds the previous part, all files without parts, and the
// beginning of the file that holds part `index`.
void DataPlan::append_between(std::size_t index, std::span<const std::uint64_t> checks,
                              std::string& out) const {
  std::size_t at = index == 0 ? 0 : file_of(index - 1);
  for (; at < files_.size(); ++at) {
    const auto& [layout, name, first_part] = files_[at];
    const TorchPlan& plan = layout->plan;
    const std::size_t count = plan.parts().size();
    const std::size_t local = index - first_part;
    plan.append_between(local, checks.subspan(first_part, count), out);
    if (local < count) return;
  }
}

}  // namespace cairn::dcp

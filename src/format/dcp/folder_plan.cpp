#include "format/dcp/folder_plan.h"

#include <algorithm>

#include "cairn/error.h"

#include "format/dcp/layout.h"
#include "format/pickle/encode.h"
#include "format/pickle/pickler.h"
#include "io/spill.h"
#include "value/element_reader.h"
#include "value/strided.h"
#include "value/tensor_stream.h"

namespace cairn::dcp {
namespace {

using pickle::Op;
using pickle::Pickler;

// A tensor's own elements, in row-major order.
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
  // In a scratch file unless they are few, or lie so.
  SharedBytes load() const override {
    if (size() <= kMostBytesInMemory || tensor_.is_contiguous()) return tensor_.contiguous_bytes();
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
    throw UsageError(e.what());  // the caller's tensor, no file
  }
}

// Where a tensor begins in the whole one, and how large that is.
Dims offsets_of(const TensorView& tensor) {
  return tensor.part ? tensor.part->offsets : Dims(tensor.shape.size(), 0);
}
const Dims& global_shape_of(const TensorView& tensor) {
  return tensor.part ? tensor.part->global_shape : tensor.shape;
}

// A chunk is a plain tensor with just its own elements.
Value as_chunk(const TensorView& tensor, const std::string& scratch_folder) {
  TensorView chunk = tensor;
  chunk.requires_grad = false;
  chunk.is_parameter = false;
  if (tensor.quantizer != nullptr) {
    throw UnsupportedError("a quantized tensor: torch.distributed.checkpoint fails to read one");
  }
  if (tensor.part != nullptr) check_place(tensor);
  chunk.part = nullptr;
  const std::uint64_t bytes = byte_size(tensor);
  const bool is_alone = tensor.is_contiguous() && tensor.storage && tensor.storage_offset == 0 &&
                        tensor.storage->size() == bytes;
  if (is_alone) return chunk;
  chunk.storage_offset = 0;
  chunk.strides = contiguous_strides(tensor.shape);
  chunk.storage = std::make_shared<const ElementsStorage>(tensor, scratch_folder);
  return chunk;
}

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

// Writes the objects of `.metadata`. Each dataclass is an object made of nothing and a dict of its
// fields.
class MetadataPickler {
 public:
  void begin_object(const char* module, const char* type) {
    out.global(module, type);
    out.empty_tuple();
    out.op(Op::kNewObj);
    out.put();
  }
  void begin_fields(const char* module, const char* type) {
    begin_object(module, type);
    begin_dict();
  }
  void begin_dict() {
    out.op(Op::kEmptyDict);
    out.put();
    out.op(Op::kMark);
  }
  void end_dict() { out.op(Op::kSetItems); }
  void end_fields() {
    end_dict();
    out.op(Op::kBuild);
  }
  void size(const Dims& dims) {
    out.global("torch", "Size");
    out.tuple_of(dims);
    out.tuple(1);
    out.reduce();
  }

  // (dtype, layout, requires_grad, memory format, pin_memory)
  void properties(const TensorView& tensor) {
    begin_object(kModule, "TensorProperties");
    out.op(Op::kMark);
    out.global("torch", name(tensor.dtype));
    out.global("torch.serialization", "_get_layout");
    out.text("torch.strided");
    out.tuple(1);
    out.reduce();
    out.boolean(tensor.requires_grad);
    out.global(kModule, "_MEM_FORMAT_ENCODING");
    out.integer(0);  // contiguous
    out.tuple(1);
    out.reduce();
    out.boolean(false);
    out.tuple_since_mark();
    out.op(Op::kBuild);
  }

  void storage_metadata(const Value& value) {
    if (!value.is_tensor()) return begin_object(kModule, "BytesStorageMetadata");
    const TensorView& tensor = value.as_tensor();
    begin_fields(kModule, "TensorStorageMetadata");
    out.text("properties");
    properties(tensor);
    out.text("size");
    size(global_shape_of(tensor));
    out.text("chunks");
    out.op(Op::kEmptyList);
    out.put();
    begin_fields(kModule, "ChunkStorageMetadata");
    out.text("offsets");
    size(offsets_of(tensor));
    out.text("sizes");
    size(tensor.shape);
    end_fields();
    out.op(Op::kAppend);
    end_fields();
  }

  void path(const FlatItem& item) {
    out.op(Op::kMark);
    for (const auto& part : item.path) {
      if (const auto* key = std::get_if<std::string>(&part)) {
        out.text(*key);
      } else {
        out.integer(std::get<std::int64_t>(part));
      }
    }
    out.tuple_since_mark();
  }

  void index(const FlatItem& item) {
    begin_fields(kModule, "MetadataIndex");
    out.text("fqn");
    out.text(item.fqn);
    out.text("index");
    if (item.value->is_tensor()) {
      out.integer(0);
      out.text("offset");
      size(offsets_of(item.value->as_tensor()));
    } else {
      out.none();
    }
    end_fields();
  }

  void storage_info(std::uint64_t offset, std::uint64_t length) {
    begin_fields("torch.distributed.checkpoint.filesystem", "_StorageInfo");
    out.text("relative_path");
    out.text(kDataFile);
    out.text("offset");
    out.integer(static_cast<std::int64_t>(offset));
    out.text("length");
    out.integer(static_cast<std::int64_t>(length));
    end_fields();
  }

  Pickler out;
};

}  // namespace

void DataPlan::add(TorchPlan file, std::string name) {
  const std::size_t first_part = parts_.size();
  for (Part part : file.parts()) {
    part.offset += size_;
    parts_.push_back(std::move(part));
  }
  size_ += file.size();
  files_.push_back({std::move(file), std::move(name), first_part});
}

std::size_t DataPlan::file_of(std::size_t part) const {
  const auto behind = std::upper_bound(
      files_.begin(), files_.end(), part,
      [](std::size_t number, const File& file) { return number < file.first_part; });
  return static_cast<std::size_t>(behind - files_.begin()) - 1;
}

// The rest of the file that the part before is in, all files without parts, and the beginning of
// the one that the part is in.
void DataPlan::append_between(std::size_t index, std::span<const std::uint64_t> checks,
                              std::string& out) const {
  std::size_t at = index == 0 ? 0 : file_of(index - 1);
  for (; at < files_.size(); ++at) {
    const auto& [plan, name, first_part] = files_[at];
    const std::size_t count = plan.parts().size();
    const std::size_t local = index - first_part;
    plan.append_between(local, checks.subspan(first_part, count), out);
    if (local < count) return;
  }
}

FolderPlan::FolderPlan(const Value& root, const std::string& scratch_folder) {
  std::vector<Value> values;  // each item's, or its tensor as it is stored
  for (FlatItem& item : flatten(root)) {
    const Value& value = *item.value;
    try {
      values.push_back(value.is_tensor() ? as_chunk(value.as_tensor(), scratch_folder) : value);
    } catch (Error& e) {
      e.add_context(item.fqn);
      throw;
    }
    items_.push_back({.item = std::move(item)});
  }
  for (const bool tensors : {false, true}) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (values[i].is_tensor() != tensors) continue;
      Stored& stored = items_[i];
      stored.offset = data_.size();
      try {
        data_.add(TorchPlan(pickle::encode(values[i]), {}), stored.item.fqn);
      } catch (Error& e) {
        e.add_context(stored.item.fqn);
        throw;
      }
      stored.size = data_.size() - stored.offset;
    }
  }
}

std::string FolderPlan::metadata() const {
  MetadataPickler pickler;
  Pickler& out = pickler.out;
  pickler.begin_fields(kModule, "Metadata");
  out.text("state_dict_metadata");
  pickler.begin_dict();
  for (const Stored& stored : items_) {
    out.text(stored.item.fqn);
    pickler.storage_metadata(*stored.item.value);
  }
  pickler.end_dict();
  out.text("planner_data");
  pickler.begin_dict();
  for (const Stored& stored : items_) {
    out.text(stored.item.fqn);
    pickler.path(stored.item);
  }
  pickler.end_dict();
  out.text("storage_data");
  pickler.begin_dict();
  for (const Stored& stored : items_) {
    pickler.index(stored.item);
    pickler.storage_info(stored.offset, stored.size);
  }
  pickler.end_dict();
  pickler.end_fields();
  return std::move(out).finish();
}

}  // namespace cairn::dcp

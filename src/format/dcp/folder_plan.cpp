#include "format/dcp/folder_plan.h"

#include "cairn/error.h"

namespace cairn::dcp {

FolderPlan::FolderPlan(const Value& root, const std::string& scratch_folder) {
  std::vector<Value> values;  // each item's value, or its tensor as it is stored
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
      items_[i].place = data_.add(values[i], items_[i].item.fqn);
    }
  }
}

// Every tensor has one chunk: the whole tensor, or the part that this rank has.
class FolderPlan::Content final : public MetadataContent {
 public:
  explicit Content(const std::vector<Stored>& stored) : stored_(stored) {}

  std::size_t items() const override { return stored_.size(); }

  WrittenItem item(std::size_t index) const override {
    const FlatItem& item = stored_[index].item;
    WrittenItem written{.fqn = item.fqn, .path = &item.path};
    if (!item.value->is_tensor()) return written;
    const TensorView& tensor = item.value->as_tensor();
    written.dtype = tensor.dtype;
    written.requires_grad = tensor.requires_grad;
    written.size = tensor.part ? &tensor.part->global_shape : &tensor.shape;
    return written;
  }

  void for_each_chunk(std::size_t index,
                      const std::function<void(const WrittenChunk&)>& use) const override {
    const Value& value = *stored_[index].item.value;
    WrittenChunk chunk{.number = static_cast<std::uint32_t>(index)};
    if (!value.is_tensor()) return use(chunk);
    const TensorView& tensor = value.as_tensor();
    const Dims zeros(tensor.shape.size(), 0);
    chunk.offsets = tensor.part ? tensor.part->offsets : zeros;
    chunk.sizes = tensor.shape;
    use(chunk);
  }

  void get_places(std::span<const std::uint32_t> numbers,
                  std::span<WrittenPlace> places) const override {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const DataPlan::Place& place = stored_[numbers[i]].place;
      places[i] = {.offset = place.offset, .size = place.size};
    }
  }
  std::size_t files() const override { return 1; }
  std::string_view file_name(std::uint32_t /*file*/) const override { return kDataFile; }

 private:
  const std::vector<Stored>& stored_;
};

std::string FolderPlan::metadata() const { return write_metadata(Content(items_)); }

}  // namespace cairn::dcp

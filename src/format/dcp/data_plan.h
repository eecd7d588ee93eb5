// A data file of a torch.distributed.checkpoint folder, `__R_N.distcp`: torch.save files, one
// behind the other, each of one object or of one tensor's own elements.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/value.h"

#include "format/torch_plan.h"

namespace cairn::dcp {

class DataPlan final : public CheckpointPlan {
 public:
  // Where something stands in the file.
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  Check check() const override { return Check::kCrc32; }
  std::uint64_t size() const override { return size_; }
  void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                      std::string& out) const override;
  std::string name_of(std::size_t index) const override { return files_[file_of(index)].name; }

  // The next item, which messages call `name`. `value` is an object, or a tensor that as_chunk()
  // gave: UsageError for another one. UnsupportedError for what a torch.save file cannot hold.
  Place add(const Value& value, std::string name);

 private:
  // A torch.save file; that of a chunk is without the storage, which stands in parts_.
  struct Layout {
    explicit Layout(TorchPlan made) : plan(std::move(made)), size(plan.size()) {}
    TorchPlan plan;
    std::uint64_t size;
  };
  struct File {
    std::shared_ptr<const Layout> layout;
    std::string name;
    std::size_t first_part;
  };
  // What the layout of a chunk follows from: a model has few of them.
  using ChunkKind = std::tuple<DType, std::string, Dims, Dims>;  // location, shape, strides

  static std::shared_ptr<Layout> lay_out(const Value& value, const std::string& name);
  std::shared_ptr<const Layout> layout_of_chunk(const Value& value, const std::string& name);
  // Which file a part is in.
  std::size_t file_of(std::size_t part) const;

  std::vector<File> files_;
  std::map<ChunkKind, std::shared_ptr<const Layout>> chunks_;
  std::uint64_t size_ = 0;
};

// The plain tensor, contiguous and with just its own elements, that a chunk is: they are gathered
// when they are written, in memory up to 32 MiB, otherwise in a ScratchFile in `scratch_folder`.
// UnsupportedError for a quantized tensor; UsageError for a part that does not fit its tensor.
Value as_chunk(const TensorView& tensor, const std::string& scratch_folder);

}  // namespace cairn::dcp

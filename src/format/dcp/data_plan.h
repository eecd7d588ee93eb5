// A data file of a torch.distributed.checkpoint folder, `__R_N.distcp`. It is a sequence of
// torch.save files. Each holds one object, or one tensor with only its own elements.
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
  // The place of an item in the file.
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  Check check() const override { return Check::kCrc32; }
  std::uint64_t size() const override { return size_; }
  void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                      std::string& out) const override;
  std::string name_of(std::size_t index) const override { return files_[file_of(index)].name; }

  // Adds the next item and returns its place. Messages call it `name`. `value` is an object, or a
  // tensor made by as_chunk(); throws UsageError for any other tensor, UnsupportedError for a value
  // that a torch.save file cannot hold.
  Place add(const Value& value, std::string name);

 private:
  // The layout of a torch.save file. The layout of a chunk has no storage: the storage is in
  // parts_.
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
  // The properties that determine a chunk's layout. The chunks of a model are of few kinds.
  using ChunkKind = std::tuple<DType, std::string, Dims, Dims>;  // location, shape, strides

  static std::shared_ptr<Layout> lay_out(const Value& value, const std::string& name);
  std::shared_ptr<const Layout> layout_of_chunk(const Value& value, const std::string& name);
  // Returns the index of the file that has this part.
  std::size_t file_of(std::size_t part) const;

  std::vector<File> files_;
  std::map<ChunkKind, std::shared_ptr<const Layout>> chunks_;
  std::uint64_t size_ = 0;
};

// Makes the tensor that is stored as a chunk: plain, contiguous, with only its own elements. The
// elements are gathered when they are written: up to 32 MiB in memory, otherwise in a ScratchFile
// in `scratch_folder`. Throws UnsupportedError for a quantized tensor, UsageError for a part that
// does not fit its tensor.
Value as_chunk(const TensorView& tensor, const std::string& scratch_folder);

}  // namespace cairn::dcp

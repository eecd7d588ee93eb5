// Describes the tensors at the time when their views were made, to compare with their present
// state. Allocates nothing per tensor, and checks everything that can be checked.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn {

class SeenTensors {
 public:
  // A position in the remembered tensors.
  struct Cursor {
    std::size_t tensor = 0;
    std::size_t extent = 0;
  };

  // For a tensor with a storage, whose view_of() this thread just made. The caller must keep that
  // view alive, as it holds the storage. The tensor itself need not live: its address only tells
  // which names are one tensor.
  void add(const at::Tensor& tensor);
  // Whether the view of each added tensor refers to the tensor's memory, not to a copy.
  bool are_live() const { return are_live_; }

  // Whether view_of() on this thread would find the storages of those views.
  bool are_of_this_thread() const;
  // Whether `tensor`, which may be any tensor, equals the next remembered tensor. Advances.
  bool is_next(Cursor& at, const at::Tensor& tensor) const;
  bool is_end(const Cursor& at) const { return at.tensor == seen_.size(); }
  // Does what view_of() does for tensors of devices. Call it if the previous views are used again.
  void note_streams() const;

 private:
  struct Seen {
    const void* tensor = nullptr;
    const void* storage = nullptr;
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t keys = 0;  // Its dispatch keys: layout, device, whether conjugated or negated.
    std::int64_t offset = 0;
    at::ScalarType type = at::ScalarType::Undefined;
    std::uint32_t dimensions = 0;

    bool operator==(const Seen&) const = default;
  };
  static Seen look_at(const at::Tensor& tensor);

  std::vector<Seen> seen_;
  std::vector<std::int64_t> extents_;  // Each tensor's sizes, then its strides.
  std::vector<c10::Device> devices_;   // Other than the CPU, each once.
  std::weak_ptr<const int> thread_;    // The thread whose views share storages (view_of()).
  bool are_live_ = true;
};

}  // namespace cairn

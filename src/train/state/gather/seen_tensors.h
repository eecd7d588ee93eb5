// What tensors were when their views were made, to be compared with what they are now: nothing is
// allocated for a tensor, and nothing is believed that can be looked at.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn {

class SeenTensors {
 public:
  // A place in what was seen.
  struct Cursor {
    std::size_t tensor = 0;
    std::size_t extent = 0;
  };

  // Of a tensor with a storage, whose view_of() this thread just made. Somebody must keep that
  // view: it holds the storage. The tensor itself need not live: its address says which names stand
  // for one tensor.
  void add(const at::Tensor& tensor);
  // Whether the view of each that was added is of its memory, and not of a copy.
  bool are_live() const { return are_live_; }

  // Whether view_of() in this thread would find the storages of the views that were made.
  bool are_of_this_thread() const;
  // Whether `tensor` is what the next one was; goes on behind that. Any tensor.
  bool is_next(Cursor& at, const at::Tensor& tensor) const;
  bool is_end(const Cursor& at) const { return at.tensor == seen_.size(); }
  // What view_of() does for tensors of devices, when the views of before are used again.
  void note_streams() const;

 private:
  struct Seen {
    const void* tensor = nullptr;
    const void* storage = nullptr;
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t keys = 0;  // its dispatch keys: layout, device, whether conjugated or negated
    std::int64_t offset = 0;
    at::ScalarType type = at::ScalarType::Undefined;
    std::uint32_t dimensions = 0;

    bool operator==(const Seen&) const = default;
  };
  static Seen look_at(const at::Tensor& tensor);

  std::vector<Seen> seen_;
  std::vector<std::int64_t> extents_;  // of each: its sizes, its strides
  std::vector<c10::Device> devices_;   // other than the CPU, each once
  std::weak_ptr<const int> thread_;    // whose views share storages (view_of())
  bool are_live_ = true;
};

}  // namespace cairn

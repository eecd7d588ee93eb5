// New elements for a live tensor, applied by steps that cannot fail.
//
// clang-format off
//  1. Making a TensorLoad does everything that may fail. It converts the elements to the tensor's
//     dtype and device and, if the tensor's memory has no gaps, to its order. Elements that go to a
//     device unchanged are uploaded at the beginning of apply_all(), all at once
//     (device_storage.h).
//  2. apply_all() hands the memory of the new elements over, so that nothing is copied and weights
//     are held twice no longer than needed, if
//       - neither memory has another owner: no view, no Value of a state_dict(), no other tensor
//         (both counts are 1);
//       - each tensor is the whole of its storage, whose memory is libtorch's own (or staging.h's).
//     Pointers to the old elements are invalid then, as after resize_().
//  3. Otherwise it copies from memory to memory. Elements that were read in place stay. The old
//     memory of a small tensor is released right after its step, while it is in the cache. Large
//     memory is released after all steps, by several threads: the kernel unmaps a GiB of small
//     pages in a tenth of the time of reading one.
//  4. Copies that libtorch itself must do (to a device, if 2 does not apply; into a layout that is
//     not strided) may fail. They are done first, and undone on failure. Devices work
//     asynchronously and report failures late, so they are waited for before 2 and 3.
// clang-format on
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "cairn/tensor.h"

namespace cairn {

class TensorLoad {
 public:
  // `elements`: as many as `target` has, of a dtype that can be cast to the target's. Shares the
  // memory of `elements` if no conversion is needed. Otherwise calls `before_elements` first, if
  // given. Throws UnsupportedError, and libtorch's exceptions.
  TensorLoad(const at::Tensor& target, const TensorView& elements,
             const std::function<void()>& before_elements = {});

 private:
  friend void apply_all(std::vector<TensorLoad>& loads, const std::function<void()>& last);

  // Whether the new elements are already in the target's own memory.
  bool is_there() const noexcept { return !elements_.defined(); }
  void arrange(const std::function<void()>& before_elements);  // Step 1.
  static void upload(std::vector<TensorLoad>& loads);          // Step 1, the rest.
  bool may_hand_over() const noexcept;
  void hand_over() noexcept;
  bool needs_libtorch() const noexcept;
  void save_old_elements();   // Step 4: saves the old elements.
  void copy();                // Step 4.
  void copy_back() noexcept;  // Restores what save_old_elements() saved.
  static void wait_for_devices(const std::vector<TensorLoad>& loads);
  void put() noexcept;      // Step 2 or 3.
  void release() noexcept;  // Frees what step 2 left and step 1 made.
  static void put_all(std::vector<TensorLoad>& loads) noexcept;  // Calls put() and release().

  at::Tensor target_;
  at::Tensor elements_;       // Undefined: is_there().
  at::Tensor upload_source_;  // Source of upload(), which writes elements_.
  at::Tensor old_elements_;   // The old elements, if libtorch itself copies.
  bool target_is_on_host_ = true;
  bool is_strided_ = true;
  bool is_dense_ = true;  // The target has no gaps, and its elements have the order of the new
                          // ones.
};

// Applies all loads, or throws with none applied. Only copies to a device, and copies that libtorch
// itself does, can throw. Memory is handed over only if the Values that it was loaded into no
// longer exist. `last` is called before steps 2 and 3, when nothing can fail any more. An exception
// of `last` is passed on, with nothing applied.
void apply_all(std::vector<TensorLoad>& loads, const std::function<void()>& last = {});

}  // namespace cairn

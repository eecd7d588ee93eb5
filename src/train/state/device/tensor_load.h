// New elements for a live tensor, applied by steps that cannot fail.
//
// clang-format off
//  1. Making a TensorLoad does all that may fail: the elements are brought into the tensor's dtype
//     and device and, where its memory has no gaps, into the order in which they lie there. What a
//     device gets as it is goes there in the beginning of apply_all(), all at once
//     (device_storage.h).
//  2. apply_all() hands the memory of the new elements over, so that nothing is copied and weights
//     are held twice no longer than needed, when
//       - nobody else has it, and nobody else has the tensor's: no view, no Value of a
//         state_dict(), no other tensor (both counts are 1);
//       - each is the whole of its storage, and its memory is libtorch's own (or staging.h's).
//     Pointers to the old elements are invalid then, as after resize_().
//  3. Otherwise it copies from memory to memory; what was read in place stays there.
//     What small tensors had is let go of behind each, while it is in the cache; large memory
//     behind all, by several threads: an unmapped GiB of small pages takes the kernel a tenth of
//     the time of reading one.
//  4. What libtorch itself has to copy (to a device, when 2 is not so; into a layout that is not
//     strided) might fail: this is done first, and taken back when it does. Devices work while the
//     host goes on, and say later that they failed: before 2 and 3 they are waited for.
// clang-format on
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "cairn/tensor.h"

namespace cairn {

class TensorLoad {
 public:
  // `elements`: as many as `target` has, of a dtype that can be cast to its. Shares the memory of
  // `elements` where it need not be converted; where it must, calls `before_elements` first, if
  // there is one. UnsupportedError, and what libtorch throws.
  TensorLoad(const at::Tensor& target, const TensorView& elements,
             const std::function<void()>& before_elements = {});

 private:
  friend void apply_all(std::vector<TensorLoad>& loads, const std::function<void()>& last);

  // Whether the new elements have the target's own memory.
  bool is_there() const noexcept { return !elements_.defined(); }
  void arrange(const std::function<void()>& before_elements);  // step 1
  static void upload(std::vector<TensorLoad>& loads);          // step 1, the rest
  bool may_hand_over() const noexcept;
  void hand_over() noexcept;
  bool needs_libtorch() const noexcept;
  void put_aside();           // step 4: what stands there
  void copy();                // step 4
  void copy_back() noexcept;  // what was put aside
  static void wait_for_devices(const std::vector<TensorLoad>& loads);
  void put() noexcept;                                           // step 2 or 3
  void release() noexcept;                                       // what 2 left, and 1 made
  static void put_all(std::vector<TensorLoad>& loads) noexcept;  // put() and release()

  at::Tensor target_;
  at::Tensor elements_;     // undefined: is_there()
  at::Tensor on_host_;      // what upload() writes to elements_
  at::Tensor before_;       // where libtorch copied
  bool is_on_host_ = true;  // the target
  bool is_strided_ = true;
  bool is_dense_ = true;  // no gaps in the target; its elements and the new ones lie in one order
};

// Applies all; or throws with none applied, which only copies to a device, and libtorch's own, can
// cause. Memory is
// handed over where the Values that it was loaded into are gone. `last` is called when nothing of
// that can fail any more, before steps 2 and 3; what it throws, nothing applied, goes on.
void apply_all(std::vector<TensorLoad>& loads, const std::function<void()>& last = {});

}  // namespace cairn

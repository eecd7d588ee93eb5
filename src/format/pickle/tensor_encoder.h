// Writes tensors as calls of PyTorch's rebuild functions, and numbers their storages.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cairn/sparse_tensor.h"

#include "format/pickle/pickler.h"

namespace cairn::pickle {

class TensorEncoder {
 public:
  // Appends every storage to `storages` when it is first used.
  TensorEncoder(Pickler& out, std::vector<std::shared_ptr<const Storage>>& storages)
      : out_(out), storages_(storages) {}

  // Returns the memo number of the tensor. Each tensor that the tree holds is given once.
  std::uint32_t encode(const TensorView& tensor);
  std::uint32_t encode(const SparseTensor& tensor);
  // The storage of `tensor` by itself, any number of times; untyped ones count bytes.
  void encode_storage(const TensorView& tensor, bool is_untyped);

 private:
  struct Known {
    std::string_view key;
    DType dtype = DType::kUInt8;
  };

  // A call of _rebuild_parameter around what `encode_inner` writes.
  template <class EncodeInner>
  std::uint32_t encode_parameter(bool requires_grad, EncodeInner encode_inner);
  std::uint32_t encode_data(const TensorView& tensor, bool requires_grad);
  void encode_storage(const TensorView& tensor, const Known& known, bool is_untyped);
  std::uint32_t encode_parts(const SparseTensor& tensor);
  void encode_quantizer(const Quantizer& quantizer);
  Known known_storage(const TensorView& tensor);
  Known new_storage(const TensorView& tensor);

  Pickler& out_;
  std::vector<std::shared_ptr<const Storage>>& storages_;
  std::unordered_map<const Storage*, Known> known_;
  std::deque<std::string> keys_;  // "0", "1", ...
  bool is_given_again_ = false;   // the tensor may be: it belongs to a shared quantizer
};

}  // namespace cairn::pickle

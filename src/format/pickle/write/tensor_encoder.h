// Writes tensors as calls of PyTorch's rebuild functions, and numbers their storages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cairn/sparse_tensor.h"

#include "format/pickle/write/pickler.h"

namespace cairn::pickle {

class TensorEncoder {
 public:
  // Appends every storage to `storages` when it is first used.
  TensorEncoder(Pickler& out, std::vector<std::shared_ptr<const Storage>>& storages)
      : out_(out), storages_(storages) {}

  // Returns the memo number of the tensor. Each tensor that the tree holds is given once.
  std::uint32_t encode(const TensorView& tensor);
  std::uint32_t encode(const SparseTensor& tensor);
  // What it knows of storages, so that another one can go on from there.
  struct Known {
    std::uint32_t key = 0;
    DType dtype = DType::kUInt8;
  };
  struct Storages {
    std::unordered_map<const Storage*, Known> known = {};  // those that may come again
    std::vector<DType> dtypes = {};                        // of all, in their order: by key
  };
  const Storages& known_storages() const { return known_; }
  // Any of the storages until now may come again.
  void go_on_from(const Storages& known) {
    known_ = known;
    usual_ = {};  // what was written now, too, has other numbers
    may_come_again_ = known_.dtypes.size();
  }

  // The storage of `tensor` by itself, any number of times; untyped ones count bytes.
  void encode_storage(const TensorView& tensor, bool is_untyped);

 private:
  // What most tensors of a state have in common.
  struct Usual {
    DType dtype = DType::kUInt8;
    Pickler::Phrase head = {};  // all before a storage's key, of this dtype without a quantizer
    std::string location = {};
    Pickler::Phrase location_text = {};
    Pickler::Phrase no_hooks = {};  // the class of an empty OrderedDict
  };

  // A call of _rebuild_parameter around what `encode_inner` writes.
  template <class EncodeInner>
  std::uint32_t encode_parameter(bool requires_grad, EncodeInner encode_inner);
  std::uint32_t encode_data(const TensorView& tensor, bool requires_grad);
  // Without a class: of untyped ones.
  void encode_storage_head(std::string_view type);
  void encode_storage_rest(const TensorView& tensor, const Known& known, std::string_view type);
  std::uint32_t encode_parts(const SparseTensor& tensor);
  void encode_quantizer(const Quantizer& quantizer);
  Known known_storage(const TensorView& tensor);
  Known new_storage(const TensorView& tensor);
  void know_all();

  Pickler& out_;
  std::vector<std::shared_ptr<const Storage>>& storages_;
  Storages known_;
  Usual usual_;
  std::size_t may_come_again_ = 0;  // the first ones, which known_.known may lack
  bool is_given_again_ = false;     // the tensor may be: it belongs to a shared quantizer
};

}  // namespace cairn::pickle

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
  // Appends every storage to `storages` at its first use.
  TensorEncoder(Pickler& out, std::vector<std::shared_ptr<const Storage>>& storages)
      : out_(out), storages_(storages) {}

  // Writes a tensor and returns its memo number. Each tensor of the tree is given once.
  std::uint32_t encode(const TensorView& tensor);
  std::uint32_t encode(const SparseTensor& tensor);
  // A storage that was written.
  struct Known {
    std::uint32_t key = 0;
    DType dtype = DType::kUInt8;
  };
  struct Storages {
    // Storages that may occur again, by address.
    std::unordered_map<const Storage*, Known> known = {};
    std::vector<DType> dtypes = {};  // of all storages, by key
  };
  const Storages& known_storages() const { return known_; }
  // Continues after another encoder, whose known_storages() are `known`. All storages in `known`
  // may occur again.
  void continue_from(const Storages& known) {
    known_ = known;
    usual_ = {};  // text written since then has other memo numbers
    unindexed_count_ = known_.dtypes.size();
  }

  // Writes the storage of `tensor` by itself. May be called repeatedly. Untyped storages count
  // bytes.
  void encode_storage(const TensorView& tensor, bool is_untyped);

 private:
  // The opcodes that most tensors of a state have in common.
  struct Usual {
    DType dtype = DType::kUInt8;
    Pickler::Phrase head = {};  // all opcodes before the key, for this dtype without a quantizer
    std::string location = {};
    Pickler::Phrase location_text = {};
    Pickler::Phrase no_hooks = {};  // the class of an empty OrderedDict
  };

  // Writes a call of _rebuild_parameter around the output of `encode_inner`.
  template <class EncodeInner>
  std::uint32_t encode_parameter(bool requires_grad, EncodeInner encode_inner);
  std::uint32_t encode_data(const TensorView& tensor, bool requires_grad);
  // `type` is empty for untyped storages.
  void encode_storage_head(std::string_view type);
  void encode_storage_rest(const TensorView& tensor, const Known& known, std::string_view type);
  std::uint32_t encode_parts(const SparseTensor& tensor);
  void encode_quantizer(const Quantizer& quantizer);
  Known known_storage(const TensorView& tensor);
  Known new_storage(const TensorView& tensor);
  void remember_all_storages();

  Pickler& out_;
  std::vector<std::shared_ptr<const Storage>>& storages_;
  Storages known_;
  Usual usual_;
  std::size_t unindexed_count_ = 0;  // known_.known may lack this many of the first storages
  bool is_given_again_ = false;      // a shared quantizer's tensor may be given again
};

}  // namespace cairn::pickle

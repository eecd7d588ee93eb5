#include "format/pickle/write/tensor_encoder.h"

#include "cairn/error.h"

#include "format/pickle/globals/storage_classes.h"
#include "value/tensor/tensor_part.h"

namespace cairn::pickle {
namespace {

void check_writable(const TensorView& tensor) {
  try {
    check_bounds(tensor);
  } catch (const CorruptError& e) {
    throw UsageError(e.what());  // the caller's tensor, not a file's
  }
  check_is_whole(tensor, "a torch.save file");
  if (name(tensor.dtype).starts_with('q') && tensor.quantizer == nullptr) {
    throw UnsupportedError("a tensor of dtype " + std::string(name(tensor.dtype)) +
                           " has no quantizer");
  }
}

// Returns the name of the function that makes such a tensor from its storage.
std::string_view rebuild_function(const TensorView& tensor) {
  if (tensor.quantizer != nullptr) return "_rebuild_qtensor";
  return storage_class(tensor.dtype).empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2";
}

}  // namespace

template <class EncodeInner>
std::uint32_t TensorEncoder::encode_parameter(bool requires_grad, EncodeInner encode_inner) {
  out_.global("torch._utils", "_rebuild_parameter");
  encode_inner();
  out_.boolean(requires_grad);
  out_.empty_ordered_dict();  // hooks
  out_.tuple(3);
  return out_.reduce();
}

std::uint32_t TensorEncoder::encode(const TensorView& tensor) {
  check_writable(tensor);
  if (!tensor.is_parameter) return encode_data(tensor, tensor.requires_grad);
  return encode_parameter(tensor.requires_grad, [&] { encode_data(tensor, false); });
}

std::uint32_t TensorEncoder::encode_data(const TensorView& tensor, bool requires_grad) {
  const std::string_view type = storage_class(tensor.dtype);
  const auto head = [&] {
    out_.global("torch._utils", rebuild_function(tensor));
    out_.op(Op::kMark);
    encode_storage_head(type);
  };
  const Known known = known_storage(tensor);
  if (tensor.quantizer != nullptr) {
    head();
  } else {
    if (usual_.dtype != tensor.dtype) usual_.head.clear();
    usual_.dtype = tensor.dtype;
    out_.write_phrase(usual_.head, head);
  }
  encode_storage_rest(tensor, known, type);
  out_.integer(tensor.storage_offset);
  out_.tuple_of(tensor.shape);
  out_.tuple_of(tensor.strides);
  if (tensor.quantizer != nullptr) encode_quantizer(*tensor.quantizer);
  out_.boolean(requires_grad);
  out_.write_phrase(usual_.no_hooks, [&] { out_.global("collections", "OrderedDict"); });
  out_.empty_tuple();
  out_.reduce();
  if (type.empty()) out_.global("torch", name(tensor.dtype));
  out_.tuple_since_mark();
  return out_.reduce();
}

void TensorEncoder::encode_quantizer(const Quantizer& quantizer) {
  if (!quantizer.axis) {
    out_.global("torch", "per_tensor_affine");
    out_.real(quantizer.scale);
    out_.integer(quantizer.zero_point);
    out_.tuple(3);
    return;
  }
  out_.op(Op::kMark);
  out_.global("torch", "per_channel_affine");
  is_given_again_ = true;
  encode(quantizer.scales);
  encode(quantizer.zero_points);
  is_given_again_ = false;
  out_.integer(*quantizer.axis);
  out_.tuple_since_mark();
}

std::uint32_t TensorEncoder::encode(const SparseTensor& tensor) {
  try {
    check_structure(tensor);
  } catch (const CorruptError& e) {
    throw UsageError(e.what());  // the caller's tensor, not a file's
  }
  if (!tensor.is_parameter) return encode_parts(tensor);
  return encode_parameter(tensor.requires_grad, [&] { encode_parts(tensor); });
}

// For COO, writes is_coalesced only if the tensor's own file had it: PyTorch before 2.1 accepts no
// such argument.
std::uint32_t TensorEncoder::encode_parts(const SparseTensor& tensor) {
  out_.global("torch._utils",
              tensor.is_csr_of_113 ? "_rebuild_sparse_csr_tensor" : "_rebuild_sparse_tensor");
  out_.global("torch.serialization", "_get_layout");
  out_.text(name(tensor.layout));
  out_.tuple(1);
  out_.reduce();
  const auto parts = parts_of(tensor);
  const bool has_is_coalesced =
      tensor.layout == Layout::kSparseCoo && tensor.is_coalesced.has_value();
  const bool is_long = parts.size() > 2 || has_is_coalesced;
  if (is_long) out_.op(Op::kMark);
  for (const auto& [part_name, part] : parts) {
    encode(*part);
  }
  out_.global("torch", "Size");
  out_.tuple_of(tensor.shape);
  out_.tuple(1);
  out_.reduce();
  if (has_is_coalesced) out_.boolean(*tensor.is_coalesced);
  if (is_long) {
    out_.tuple_since_mark();
  } else {
    out_.tuple(3);
  }
  out_.tuple(2);
  return out_.reduce();
}

void TensorEncoder::encode_storage(const TensorView& tensor, bool is_untyped) {
  is_given_again_ = true;
  const Known known = known_storage(tensor);
  is_given_again_ = false;
  const std::string_view type = is_untyped ? std::string_view() : storage_class(tensor.dtype);
  encode_storage_head(type);
  encode_storage_rest(tensor, known, type);
}

// Writes ('storage', class, key, location, elements) as a persistent id.
void TensorEncoder::encode_storage_head(std::string_view type) {
  out_.op(Op::kMark);
  out_.text("storage");
  if (type.empty()) {
    out_.global("torch.storage", "UntypedStorage");
  } else {
    out_.global("torch", type);
  }
}

void TensorEncoder::encode_storage_rest(const TensorView& tensor, const Known& known,
                                        std::string_view type) {
  out_.text_of(known.key);
  const std::size_t bytes = tensor.storage ? tensor.storage->size() : 0;
  const std::string_view location =
      tensor.storage ? std::string_view(tensor.storage->location()) : "cpu";
  if (usual_.location != location) usual_.location_text.clear();
  usual_.location = location;
  out_.write_phrase(usual_.location_text, [&] { out_.text(location); });
  out_.integer(static_cast<std::int64_t>(type.empty() ? bytes : bytes / item_size(tensor.dtype)));
  out_.tuple_since_mark();
  out_.op(Op::kBinPersId);
}

TensorEncoder::Known TensorEncoder::known_storage(const TensorView& tensor) {
  // A storage of only one tensor occurs once.
  if (tensor.storage.use_count() == 1 && !is_given_again_) return new_storage(tensor);
  if (unindexed_count_ != 0) remember_all_storages();
  const auto [entry, is_new] = known_.known.try_emplace(tensor.storage.get());
  Known& known = entry->second;
  if (is_new) return known = new_storage(tensor);
  if (storage_dtype(known.dtype) != storage_dtype(tensor.dtype)) {
    throw UnsupportedError("tensors of dtype " + std::string(name(known.dtype)) + " and " +
                           std::string(name(tensor.dtype)) +
                           " share one storage, which torch.load does not allow");
  }
  return known;
}

void TensorEncoder::remember_all_storages() {
  for (std::size_t i = 0; i < unindexed_count_; ++i) {
    known_.known.try_emplace(storages_[i].get(),
                             Known{static_cast<std::uint32_t>(i), known_.dtypes[i]});
  }
  unindexed_count_ = 0;
}

TensorEncoder::Known TensorEncoder::new_storage(const TensorView& tensor) {
  const std::size_t counted = item_size(storage_dtype(tensor.dtype));
  if (tensor.storage && tensor.storage->size() % counted != 0) {
    throw UnsupportedError("a storage of " + std::to_string(tensor.storage->size()) +
                           " bytes does not hold a whole number of elements of " +
                           std::string(name(tensor.dtype)));
  }
  const Known known = {static_cast<std::uint32_t>(storages_.size()), tensor.dtype};
  known_.dtypes.push_back(tensor.dtype);
  storages_.push_back(tensor.storage ? tensor.storage : storage_of({}));
  return known;
}

}  // namespace cairn::pickle

// PyTorch's functions and classes.
#include <algorithm>
#include <array>
#include <cstring>

#include "cairn/error.h"

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {
namespace {

bool is_differentiable(DType dtype) {
  const std::string_view dtype_name = name(dtype);
  return dtype_name.starts_with("float") || dtype_name.starts_with("bfloat") ||
         dtype_name.starts_with("complex");
}

// Applies {'conj': True, 'neg': True}: the storage has the tensor's elements before a lazy
// operation.
void apply_metadata(const Call& call, std::size_t i, TensorView& tensor) {
  if (call.arg(i).is_none()) return;
  const auto* metadata = call.graph.find<Container>(call.arg(i));
  if (metadata == nullptr || !metadata->is_dict()) call.fail("the metadata is not a dict");
  PendingBits pending;
  for (std::size_t k = 0; k + 1 < metadata->items.size(); k += 2) {
    const auto* key = call.graph.find<Text>(metadata->items[k]);
    const auto value = metadata->items[k + 1].boolean();
    if (key == nullptr || !value) continue;
    if (key->text == "conj") pending.is_conj = *value;
    if (key->text == "neg") pending.is_neg = *value;
  }
  if (!pending.is_conj && !pending.is_neg) return;
  if (!can_have(pending, tensor.dtype)) {
    throw UnsupportedError("PyTorch has no lazily conjugated or negated tensors of dtype " +
                           std::string(name(tensor.dtype)));
  }
  tensor.storage = call.storages.resolve_bits(tensor.storage, tensor.dtype, pending);
}

Ref rebuild_tensor(const Call& call) {
  call.expect_args(4, 4);
  return call.graph.add(Value(tensor_argument(call, std::nullopt)));
}

// Handles the arguments after those of rebuild_tensor(): requires_grad; hooks, which are code and
// ignored; and perhaps the metadata. `metadata` is the index of the last.
Ref rebuild_with_grad(const Call& call, std::optional<DType> dtype, std::size_t metadata) {
  TensorView tensor = tensor_argument(call, dtype);
  set_requires_grad(call, 4, tensor);
  if (call.args.size() > metadata) apply_metadata(call, metadata, tensor);
  return call.graph.add(Value(std::move(tensor)));
}

// Handles (storage, offset, size, stride, requires_grad, hooks[, metadata]).
Ref rebuild_tensor_v2(const Call& call) {
  call.expect_args(6, 7);
  return rebuild_with_grad(call, std::nullopt, 6);
}

// Handles the arguments of rebuild_tensor_v2() and the dtype, for dtypes without a storage class:
// (..., hooks, dtype[, metadata]).
Ref rebuild_tensor_v3(const Call& call) {
  call.expect_args(7, 8);
  const auto* dtype = call.graph.find<Value>(call.arg(6));
  if (dtype == nullptr || dtype->get_if<DType>() == nullptr) {
    call.fail("argument 7 should be a dtype, but is " + call.graph.describe(call.arg(6)));
  }
  return rebuild_with_grad(call, *dtype->get_if<DType>(), 7);
}

// Returns names in a dict of attributes, or in the first part of (attributes, slots). Returns only
// some of them, since one dict may belong to many tensors. Null if there are none.
std::shared_ptr<const std::string> attribute_names(const Call& call, const Ref& attributes) {
  constexpr std::size_t kMaxNames = 3;
  constexpr std::size_t kMaxBytes = 60;  // in a name
  const auto* dict = call.graph.find<Container>(attributes);
  if (dict != nullptr && dict->kind == Container::Kind::kTuple && !dict->items.empty()) {
    dict = call.graph.find<Container>(dict->items[0]);
  }
  if (dict == nullptr || !dict->is_dict() || dict->items.empty()) return nullptr;
  const std::size_t count = dict->items.size() / 2;
  std::string names;
  for (std::size_t i = 0; i < std::min(count, kMaxNames); ++i) {
    const auto* name = call.graph.find<Text>(dict->items[2 * i]);
    const bool is_shown = name != nullptr && name->text.size() <= kMaxBytes && !name->is_python2;
    names += (i == 0 ? "" : ", ") + std::string(is_shown ? name->text : "...");
  }
  if (count > kMaxNames) names += " and " + std::to_string(count - kMaxNames) + " more";
  call.graph.budget().take(MemoryBudget::allocation(sizeof(std::string) + names.capacity()));
  return std::make_shared<const std::string>(std::move(names));
}

// Handles (tensor, requires_grad, hooks[, attributes]).
Ref rebuild_parameter(const Call& call) {
  call.expect_args(3, 4);
  const auto* value = call.graph.find<Value>(call.arg(0));
  if (value != nullptr && value->kind() == Kind::kSparse) {
    SparseTensor sparse = value->as_sparse();
    sparse.requires_grad = call.boolean(1);
    sparse.is_parameter = true;
    return call.graph.add(Value(std::move(sparse)));
  }
  TensorView tensor = dense_argument(call, 0);
  set_requires_grad(call, 1, tensor);
  tensor.is_parameter = true;
  if (call.args.size() == 4) tensor.lost_attributes = attribute_names(call, call.arg(3));
  return call.graph.add(Value(std::move(tensor)));
}

bool is_rebuild_function(const Global& global) {
  return global.module == "torch._utils" && global.call != nullptr;
}

bool is_tensor_class(const Global& global) {
  return global.call == nullptr &&
         (global.name == "Tensor" || global.name == "Buffer" || global.name == "Parameter");
}

// Handles (function, class, its arguments, attributes): a tensor with attributes, whose names are
// kept.
Ref rebuild_from_type(const Call& call) {
  call.expect_args(4, 4);
  const auto* function = call.graph.find<const Global*>(call.arg(0));
  const auto* type = call.graph.find<const Global*>(call.arg(1));
  if (function == nullptr || !is_rebuild_function(**function)) {
    throw UnsupportedError("cairn does not read tensors rebuilt by " +
                           call.graph.describe(call.arg(0)));
  }
  if (type == nullptr || !is_tensor_class(**type)) {
    throw UnsupportedError("cairn does not read tensors of class " +
                           call.graph.describe(call.arg(1)));
  }
  const Global& rebuild = **function;
  const Ref made = rebuild.call({call.graph, call.storages, rebuild, call.items(2)});
  const auto* value = call.graph.find<Value>(made);
  auto names = attribute_names(call, call.arg(3));
  if (names == nullptr || value == nullptr || !value->is_tensor()) return made;
  TensorView tensor = value->as_tensor();
  tensor.lost_attributes = std::move(names);
  return call.graph.add(Value(std::move(tensor)));
}

Ref call_size(const Call& call) {
  call.expect_args(1, 1);
  return call.graph.add(Value(Size{call.integers(0)}));
}

Ref call_device(const Call& call) {
  call.expect_args(1, 2);
  std::string device(call.text(0));
  const bool has_index = call.args.size() == 2 && !call.arg(1).is_none();
  if (has_index) device += ":" + std::to_string(call.integer(1));
  return call.graph.add(Value(Device{std::move(device)}));
}

// torch.__version__ is a str of a class of its own.
Ref call_version(const Call& call) {
  call.expect_args(1, 1);
  call.text(0);
  return call.arg(0);
}

constexpr std::array kTorchGlobals = {
    Global{"torch", "Size", call_size},
    Global{"torch", "device", call_device},
    Global{"torch", "Tensor", nullptr},
    Global{"torch._tensor", "Tensor", nullptr},
    Global{"torch.nn.parameter", "Parameter", nullptr},
    Global{"torch.nn.parameter", "Buffer", nullptr},
    Global{"torch._utils", "_rebuild_tensor", rebuild_tensor},
    Global{"torch._utils", "_rebuild_tensor_v2", rebuild_tensor_v2},
    Global{"torch._utils", "_rebuild_tensor_v3", rebuild_tensor_v3},
    Global{"torch._utils", "_rebuild_parameter", rebuild_parameter},
    Global{"torch._utils", "_rebuild_parameter_with_state", rebuild_parameter},
    Global{"torch._tensor", "_rebuild_from_type_v2", rebuild_from_type},
    Global{"torch.torch_version", "TorchVersion", call_version},
};

}  // namespace

TensorView tensor_argument(const Call& call, std::optional<DType> dtype) {
  const auto* reference = call.graph.find<StorageReference>(call.arg(0));
  if (reference == nullptr) {
    call.fail("argument 1 should be a storage, but is " + call.graph.describe(call.arg(0)));
  }
  if (!dtype) dtype = reference->dtype;
  if (!dtype) call.fail("the storage is untyped, and no dtype is given");
  TensorView tensor;
  tensor.dtype = *dtype;
  tensor.storage = call.storages.load(*reference);
  if (!reference->dtype) {
    tensor.storage = call.storages.storage_for_dtype(tensor.storage, reference->key, *dtype);
  }
  tensor.storage_offset = call.integer(1);
  tensor.shape = call.integers(2);
  tensor.strides = call.integers(3);
  if (reference->view_numel) {
    check_bounds(tensor, *reference->view_numel * item_size(tensor.dtype));
    tensor.storage_offset += static_cast<std::int64_t>(reference->view_offset);
  }
  check_tensor(tensor);
  return tensor;
}

void check_tensor(const TensorView& tensor) {
  check_bounds(tensor);
  tensor.numel();  // throws if the product overflows
}

void set_requires_grad(const Call& call, std::size_t i, TensorView& tensor) {
  tensor.requires_grad = call.boolean(i);
  if (tensor.requires_grad && !is_differentiable(tensor.dtype)) {
    call.fail("a tensor of dtype " + std::string(name(tensor.dtype)) +
              " cannot require a gradient");
  }
}

const TensorView& dense_argument(const Call& call, std::size_t i) {
  const auto* value = call.graph.find<Value>(call.arg(i));
  if (value == nullptr || !value->is_tensor()) {
    call.fail("argument " + std::to_string(i + 1) + " should be a tensor, but is " +
              call.graph.describe(call.arg(i)));
  }
  return value->as_tensor();
}

std::span<const Global> torch_globals() { return kTorchGlobals; }

}  // namespace cairn::pickle

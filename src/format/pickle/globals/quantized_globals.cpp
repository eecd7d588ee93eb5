// PyTorch's functions for quantized tensors, and its names for settings.
#include <algorithm>
#include <array>
#include <memory>

#include "cairn/error.h"

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {
namespace {

bool is_quantized(DType dtype) {
  return name(dtype).starts_with("qint") || name(dtype).starts_with("quint");
}

void check_channels(const Call& call, const TensorView& tensor, const Quantizer& quantizer) {
  const std::int64_t axis = *quantizer.axis;
  if (axis < 0 || static_cast<std::size_t>(axis) >= tensor.shape.size()) {
    call.fail("axis " + std::to_string(axis) + " of a tensor of " +
              std::to_string(tensor.shape.size()) + " dimensions");
  }
  const Dims channels = {tensor.shape[static_cast<std::size_t>(axis)]};
  for (const TensorView* each : {&quantizer.scales, &quantizer.zero_points}) {
    if (each->shape != channels) {
      call.fail("the scales and zero points are not one for each channel");
    }
    if (each->quantizer != nullptr) call.fail("the scales or zero points are quantized themselves");
  }
}

// Reads (torch.per_tensor_affine, scale, zero point) or (torch.per_channel_affine, scales, zero
// points, axis). The symmetric schemes are written under the names of the affine ones.
Quantizer quantizer_argument(const Call& call, std::size_t i) {
  const std::span<const Ref> items = call.items(i);
  const Call parameters{call.graph, call.storages, call.global, items};
  const auto* scheme = call.graph.find<const Global*>(parameters.arg(0));
  Quantizer quantizer;
  if (scheme != nullptr && (*scheme)->name.starts_with("per_tensor_")) {
    parameters.expect_args(3, 3);
    quantizer.scale = parameters.number(1);
    quantizer.zero_point = parameters.integer(2);
  } else if (scheme != nullptr && (*scheme)->name.starts_with("per_channel_")) {
    parameters.expect_args(4, 4);
    quantizer.scales = dense_argument(parameters, 1);
    quantizer.zero_points = dense_argument(parameters, 2);
    quantizer.axis = parameters.integer(3);
  } else {
    throw UnsupportedError("cairn does not read tensors quantized by " +
                           call.graph.describe(parameters.arg(0)));
  }
  return quantizer;
}

// Handles _rebuild_qtensor(storage, offset, size, stride, quantizer, requires_grad, hooks).
Ref rebuild_qtensor(const Call& call) {
  call.expect_args(7, 7);
  TensorView tensor = tensor_argument(call);
  if (!is_quantized(tensor.dtype)) {
    call.fail("a storage of " + std::string(name(tensor.dtype)) +
              ", which is not a quantized type");
  }
  Quantizer quantizer = quantizer_argument(call, 4);
  if (quantizer.axis) check_channels(call, tensor, quantizer);
  call.boolean(5);  // its value does not matter: integers have no gradient
  tensor.quantizer = std::make_shared<const Quantizer>(std::move(quantizer));
  return call.graph.add(Value(std::move(tensor)));
}

constexpr std::array kQuantizedGlobals = {
    Global{"torch", "per_tensor_affine", nullptr},
    Global{"torch", "per_tensor_symmetric", nullptr},
    Global{"torch", "per_channel_affine", nullptr},
    Global{"torch", "per_channel_symmetric", nullptr},
    Global{"torch", "per_channel_affine_float_qparams", nullptr},
    Global{"torch", "contiguous_format", nullptr},
    Global{"torch", "preserve_format", nullptr},
    Global{"torch", "channels_last", nullptr},
    Global{"torch", "channels_last_3d", nullptr},
    Global{"torch._utils", "_rebuild_qtensor", rebuild_qtensor},
};

}  // namespace

bool is_torch_constant(const Global& global) {
  return global.module == "torch" && global.call == nullptr &&
         (global.name.starts_with("per_") || global.name.ends_with("_format") ||
          global.name.starts_with("channels_last"));
}

std::span<const Global> quantized_globals() { return kQuantizedGlobals; }

}  // namespace cairn::pickle

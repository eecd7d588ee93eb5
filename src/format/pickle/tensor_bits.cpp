#include "format/pickle/tensor_bits.h"

#include <vector>

#include "cairn/error.h"

namespace cairn::pickle {
namespace {

// Flips the sign of a little-endian float of `size` bytes.
void flip_sign(std::byte* number, std::size_t size) { number[size - 1] ^= std::byte{0x80}; }

bool is_complex(DType dtype) { return name(dtype).starts_with("complex"); }

bool has_sign_bit(DType dtype) {
  return is_complex(dtype) || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

}  // namespace

void resolve_bits(TensorView& tensor, bool is_conj, bool is_neg) {
  if (!has_sign_bit(tensor.dtype) || (is_conj && !is_complex(tensor.dtype))) {
    throw UnsupportedError("a lazily conjugated or negated tensor of dtype " +
                           std::string(name(tensor.dtype)));
  }
  const auto resolve = [old = tensor.storage, dtype = tensor.dtype, is_conj, is_neg] {
    const SharedBytes loaded = old->bytes();
    auto bytes = std::make_shared<std::vector<std::byte>>(loaded.view.begin(), loaded.view.end());
    const std::size_t item = item_size(dtype);
    const std::size_t part = is_complex(dtype) ? item / 2 : item;
    for (std::size_t at = 0; at + part <= bytes->size(); at += part) {
      const bool is_imaginary = at % item != 0;
      if (is_neg != (is_conj && is_imaginary)) flip_sign(bytes->data() + at, part);
    }
    return SharedBytes{ByteView(*bytes), bytes};
  };
  tensor.storage = storage_of(tensor.storage->size(), resolve, tensor.storage->location());
}

}  // namespace cairn::pickle

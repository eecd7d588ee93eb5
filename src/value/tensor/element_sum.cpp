#include "value/tensor/element_sum.h"

#include <cstring>
#include <string>

#include "cairn/error.h"

#include "core/half_float.h"

namespace cairn {
namespace {

template <class T, class Add>
void add_each(ByteView terms, std::span<std::byte> sum, Add add) {
  for (std::size_t at = 0; at + sizeof(T) <= sum.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, sum.data() + at, sizeof(T));
    std::memcpy(&b, terms.data() + at, sizeof(T));
    a = add(a, b);
    std::memcpy(sum.data() + at, &a, sizeof(T));
  }
}

template <class T>
void add_plain(ByteView terms, std::span<std::byte> sum) {
  add_each<T>(terms, sum, [](T a, T b) { return static_cast<T>(a + b); });
}

void add_halves(ByteView terms, std::span<std::byte> sum) {
  add_each<std::uint16_t>(terms, sum, [](std::uint16_t a, std::uint16_t b) {
    return half_of_float(float_of_half(a) + float_of_half(b));
  });
}

void add_bfloat16s(ByteView terms, std::span<std::byte> sum) {
  add_each<std::uint16_t>(terms, sum, [](std::uint16_t a, std::uint16_t b) {
    return bfloat16_of_float(float_of_bfloat16(a) + float_of_bfloat16(b));
  });
}

void add_bools(ByteView terms, std::span<std::byte> sum) {
  add_each<std::uint8_t>(terms, sum, [](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(a != 0 || b != 0 ? 1 : 0);
  });
}

using AddElements = void (*)(ByteView, std::span<std::byte>);

AddElements find_sum(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return add_bools;
    case DType::kUInt8:
    case DType::kInt8:
      return add_plain<std::uint8_t>;
    case DType::kInt16:
    case DType::kUInt16:
      return add_plain<std::uint16_t>;
    case DType::kInt32:
    case DType::kUInt32:
      return add_plain<std::uint32_t>;
    case DType::kInt64:
    case DType::kUInt64:
      return add_plain<std::uint64_t>;
    case DType::kFloat16:
    case DType::kComplex32:
      return add_halves;
    case DType::kBFloat16:
      return add_bfloat16s;
    case DType::kFloat32:
    case DType::kComplex64:
      return add_plain<float>;
    case DType::kFloat64:
    case DType::kComplex128:
      return add_plain<double>;
    default:
      return nullptr;
  }
}

}  // namespace

bool has_sum(DType dtype) { return find_sum(dtype) != nullptr; }

void add_elements(DType dtype, ByteView terms, std::span<std::byte> sum) {
  const AddElements add = find_sum(dtype);
  if (add == nullptr) {
    throw UnsupportedError("elements of dtype " + std::string(name(dtype)) + " cannot be added");
  }
  add(terms, sum);
}

}  // namespace cairn

#include "cli/view/content/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "cairn/error.h"

#include "core/little_endian.h"
#include "value/numbers.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kNpyPieceElements = std::size_t{1} << 16;

struct NumpyType {
  DType dtype;
  std::string_view descr;
  bool widened = false;  // to 32-bit floats
};
constexpr std::array kTypes = {
    NumpyType{DType::kBool, "|b1"},
    NumpyType{DType::kUInt8, "|u1"},
    NumpyType{DType::kInt8, "|i1"},
    NumpyType{DType::kUInt16, "<u2"},
    NumpyType{DType::kInt16, "<i2"},
    NumpyType{DType::kUInt32, "<u4"},
    NumpyType{DType::kInt32, "<i4"},
    NumpyType{DType::kUInt64, "<u8"},
    NumpyType{DType::kInt64, "<i8"},
    NumpyType{DType::kFloat16, "<f2"},
    NumpyType{DType::kFloat32, "<f4"},
    NumpyType{DType::kFloat64, "<f8"},
    NumpyType{DType::kComplex64, "<c8"},
    NumpyType{DType::kComplex128, "<c16"},
    NumpyType{DType::kBFloat16, "<f4", true},
    NumpyType{DType::kFloat8E4M3FN, "<f4", true},
    NumpyType{DType::kFloat8E4M3FNUZ, "<f4", true},
    NumpyType{DType::kFloat8E5M2, "<f4", true},
    NumpyType{DType::kFloat8E5M2FNUZ, "<f4", true},
    NumpyType{DType::kFloat8E8M0FNU, "<f4", true},
    NumpyType{DType::kComplex32, "<c8", true},
};

const NumpyType& numpy_type(DType dtype) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const NumpyType& type) { return type.dtype == dtype; });
  if (found != kTypes.end()) return *found;
  throw UnsupportedError("numpy has no type for " + std::string(name(dtype)) +
                         ": extract the tensor to a .pt file");
}

std::string header(std::string_view descr, const Dims& shape) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr);
  for (const std::int64_t size : shape) {
    dict += fmt::format("{}, ", size);
  }
  if (shape.size() > 1) dict.resize(dict.size() - 2);
  dict += "), }";
  constexpr std::size_t kBefore = 10;
  const std::size_t used = kBefore + dict.size() + 1;
  dict.append((64 - used % 64) % 64, ' ');
  dict += '\n';
  std::string text("\x93NUMPY\x01\0", 8);
  append_little_endian(text, static_cast<std::uint16_t>(dict.size()));
  return text + dict;
}

void write_tensor(const TensorView& tensor, ByteSink& sink) {
  const NumpyType& type = numpy_type(tensor.dtype);
  sink.write(as_bytes(header(type.descr, tensor.shape)));
  TensorPieces pieces(tensor, kNpyPieceElements);
  std::vector<double> numbers;
  std::vector<float> floats;
  for (ByteView piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    if (!type.widened) {
      sink.write(piece);
      continue;
    }
    decode_numbers(tensor.dtype, piece, numbers);
    floats.resize(numbers.size());
    std::transform(numbers.begin(), numbers.end(), floats.begin(),
                   [](double number) { return static_cast<float>(number); });
    sink.write(std::as_bytes(std::span(floats)));
  }
}

}  // namespace

void write_npy(const Value& value, ByteSink& sink) {
  if (value.is_tensor()) return write_tensor(value.as_tensor(), sink);
  if (value.kind() != Kind::kNdArray) {
    throw UsageError("a .npy file holds one tensor or array, not a " +
                     std::string(value.type_name()));
  }
  const NdArray& array = value.as_ndarray();
  const bool is_byte = array.dtype.ends_with('1');
  sink.write(as_bytes(header((is_byte ? "|" : "<") + array.dtype, array.shape)));
  sink.write(array.bytes.view);
}

}  // namespace cairn::cli

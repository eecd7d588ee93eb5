#include "format/pickle/storage_classes.h"

#include <array>

namespace cairn::pickle {
namespace {

struct Row {
  std::string_view name;
  DType dtype;
};

constexpr std::array kStorageClasses = {
    Row{"DoubleStorage", DType::kFloat64},
    Row{"FloatStorage", DType::kFloat32},
    Row{"HalfStorage", DType::kFloat16},
    Row{"BFloat16Storage", DType::kBFloat16},
    Row{"LongStorage", DType::kInt64},
    Row{"IntStorage", DType::kInt32},
    Row{"ShortStorage", DType::kInt16},
    Row{"CharStorage", DType::kInt8},
    Row{"ByteStorage", DType::kUInt8},
    Row{"BoolStorage", DType::kBool},
    Row{"ComplexFloatStorage", DType::kComplex64},
    Row{"ComplexDoubleStorage", DType::kComplex128},
    Row{"QInt8Storage", DType::kQInt8},
    Row{"QUInt8Storage", DType::kQUInt8},
    Row{"QInt32Storage", DType::kQInt32},
    Row{"QUInt4x2Storage", DType::kQUInt4x2},
    Row{"QUInt2x4Storage", DType::kQUInt2x4},
};

}  // namespace

std::string_view storage_class(DType dtype) {
  for (const Row& row : kStorageClasses) {
    if (row.dtype == dtype) return row.name;
  }
  return {};
}

std::optional<DType> find_storage_class(std::string_view name) {
  for (const Row& row : kStorageClasses) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace cairn::pickle

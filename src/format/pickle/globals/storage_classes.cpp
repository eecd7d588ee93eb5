#include "format/pickle/globals/storage_classes.h"

#include <array>

namespace cairn::pickle {
namespace {

struct StorageRow {
  std::string_view name;
  DType dtype;
};

constexpr std::array kStorageClasses = {
    StorageRow{"DoubleStorage", DType::kFloat64},
    StorageRow{"FloatStorage", DType::kFloat32},
    StorageRow{"HalfStorage", DType::kFloat16},
    StorageRow{"BFloat16Storage", DType::kBFloat16},
    StorageRow{"LongStorage", DType::kInt64},
    StorageRow{"IntStorage", DType::kInt32},
    StorageRow{"ShortStorage", DType::kInt16},
    StorageRow{"CharStorage", DType::kInt8},
    StorageRow{"ByteStorage", DType::kUInt8},
    StorageRow{"BoolStorage", DType::kBool},
    StorageRow{"ComplexFloatStorage", DType::kComplex64},
    StorageRow{"ComplexDoubleStorage", DType::kComplex128},
    StorageRow{"QInt8Storage", DType::kQInt8},
    StorageRow{"QUInt8Storage", DType::kQUInt8},
    StorageRow{"QInt32Storage", DType::kQInt32},
    StorageRow{"QUInt4x2Storage", DType::kQUInt4x2},
    StorageRow{"QUInt2x4Storage", DType::kQUInt2x4},
};

}  // namespace

std::string_view storage_class(DType dtype) {
  for (const StorageRow& row : kStorageClasses) {
    if (row.dtype == dtype) return row.name;
  }
  return {};
}

DType storage_dtype(DType dtype) { return storage_class(dtype).empty() ? DType::kUInt8 : dtype; }

std::optional<DType> find_storage_class(std::string_view name) {
  for (const StorageRow& row : kStorageClasses) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace cairn::pickle

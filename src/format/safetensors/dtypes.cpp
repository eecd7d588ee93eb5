#include "format/safetensors/dtypes.h"

#include <algorithm>
#include <array>

namespace cairn::safetensors {
namespace {

// In the order in which the reference writes them.
constexpr std::array kRows = {
    DTypeRow{"U64", 64, DType::kUInt64},
    DTypeRow{"I64", 64, DType::kInt64},
    DTypeRow{"F64", 64, DType::kFloat64},
    DTypeRow{"C64", 64, DType::kComplex64},
    DTypeRow{"F32", 32, DType::kFloat32},
    DTypeRow{"U32", 32, DType::kUInt32},
    DTypeRow{"I32", 32, DType::kInt32},
    DTypeRow{"BF16", 16, DType::kBFloat16},
    DTypeRow{"F16", 16, DType::kFloat16},
    DTypeRow{"U16", 16, DType::kUInt16},
    DTypeRow{"I16", 16, DType::kInt16},
    DTypeRow{"F8_E5M2FNUZ", 8, DType::kFloat8E5M2FNUZ},
    DTypeRow{"F8_E4M3FNUZ", 8, DType::kFloat8E4M3FNUZ},
    DTypeRow{"F8_E8M0", 8, DType::kFloat8E8M0FNU},
    DTypeRow{"F8_E4M3", 8, DType::kFloat8E4M3FN},
    DTypeRow{"F8_E5M2", 8, DType::kFloat8E5M2},
    DTypeRow{"I8", 8, DType::kInt8},
    DTypeRow{"U8", 8, DType::kUInt8},
    DTypeRow{"F6_E3M2", 6, std::nullopt},
    DTypeRow{"F6_E2M3", 6, std::nullopt},
    DTypeRow{"F4", 4, DType::kFloat4E2M1FNx2},
    DTypeRow{"BOOL", 8, DType::kBool},
};

template <class Matches>
const DTypeRow* find_if(Matches matches) {
  const auto* found = std::find_if(kRows.begin(), kRows.end(), matches);
  return found == kRows.end() ? nullptr : found;
}

}  // namespace

const DTypeRow* find_row(std::string_view name) {
  return find_if([&](const DTypeRow& row) { return row.name == name; });
}

const DTypeRow* find_row(DType dtype) {
  return find_if([&](const DTypeRow& row) { return row.dtype == dtype; });
}

int write_order(const DTypeRow& row) { return static_cast<int>(&row - kRows.data()); }

}  // namespace cairn::safetensors

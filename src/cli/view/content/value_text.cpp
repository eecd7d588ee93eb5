#include "cli/view/content/value_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/dtensor.h"
#include "cairn/foreign.h"

#include "core/text/float_text.h"
#include "core/text/utf8.h"
#include "value/value_path.h"

namespace cairn::cli {
namespace {

std::string quoted(const std::string& text) {
  constexpr std::size_t kMaxCharacters = 60;
  std::string_view rest = text;
  for (std::size_t i = 0; i < kMaxCharacters && !rest.empty(); ++i) {
    rest.remove_prefix(first_code_point(rest).size);
  }
  const std::size_t shown = text.size() - rest.size();
  return "'" + text.substr(0, shown) + (rest.empty() ? "'" : "...'");
}

// Like Python's str(timedelta).
std::string duration_text(TimeDelta delta) {
  std::string text = delta.days != 0 ? fmt::format("{}d ", delta.days) : "";
  text += fmt::format("{}:{:02}:{:02}", delta.seconds / 3600, delta.seconds / 60 % 60,
                      delta.seconds % 60);
  return delta.microseconds == 0 ? text : text + fmt::format(".{:06}", delta.microseconds);
}

std::string counted(std::string_view what, std::size_t count) {
  return fmt::format("{} of {}", what, count);
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

namespace {

std::string tensor_text(const TensorView& tensor) {
  std::string text = fmt::format("{} {}", name(tensor.dtype), shape_text(tensor.shape));
  if (tensor.part == nullptr) return text;
  return text + fmt::format(" at {} of {}", shape_text(tensor.part->offsets),
                            shape_text(tensor.part->global_shape));
}

std::string object_text(const Foreign& object) {
  if (const auto tensor = find_dtensor(object)) {
    return fmt::format("DTensor {} {}", name(tensor->local.dtype), placement_text(*tensor));
  }
  return (object.made == Foreign::Made::kNamed ? "name " : "object of ") + object.class_name();
}

}  // namespace

std::string value_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
    case Kind::kFloat:
      return key_text(value);
    case Kind::kComplex: {
      const auto& v = *value.get_if<std::complex<double>>();
      return fmt::format("({}, {}j)", python_float_repr(v.real()), python_float_repr(v.imag()));
    }
    case Kind::kStr:
      return quoted(value.as_str());
    case Kind::kBytes:
      return counted(value.type_name(), value.as_bytes().data.size());
    case Kind::kList:
    case Kind::kTuple:
      return counted(value.type_name(), value.as_items().size());
    case Kind::kSet:
      return counted(value.type_name(), value.as_set().items.size());
    case Kind::kDict:
      return counted(value.type_name(), value.as_dict().size());
    case Kind::kTimeDelta:
      return duration_text(value.as_timedelta());
    case Kind::kSize:
      return "torch.Size " + shape_text(value.get_if<Size>()->dims);
    case Kind::kDType:
      return "torch." + std::string(name(*value.get_if<DType>()));
    case Kind::kDevice:
      return value.get_if<Device>()->name;
    case Kind::kTensor:
      return tensor_text(value.as_tensor());
    case Kind::kNdArray:
      return fmt::format("ndarray {} {}", value.as_ndarray().dtype,
                         shape_text(value.as_ndarray().shape));
    case Kind::kSparse:
      return fmt::format("{} {} {}", name(value.as_sparse().layout),
                         name(value.as_sparse().dtype()), shape_text(value.as_sparse().shape));
    case Kind::kTorchConstant:
      return value.get_if<TorchConstant>()->name;
    case Kind::kNumpyScalar:
      return fmt::format("{} (numpy {})", value_text(value.get_if<NumpyScalar>()->number()),
                         value.get_if<NumpyScalar>()->dtype());
    case Kind::kForeign:
      return object_text(value.as_foreign());
    default:
      return std::string(value.type_name());
  }
}

}  // namespace cairn::cli

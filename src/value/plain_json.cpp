#include "value/plain_json.h"

#include <cmath>
#include <string>

#include "cairn/foreign.h"

#include "core/little_endian.h"
#include "core/text/json.h"
#include "value/numbers.h"
#include "value/value_path.h"

namespace cairn {
namespace {

Json plain_float(double number) {
  return std::isfinite(number) ? Json(number) : Json(key_text(number));
}

Json plain_list(const List& items, NoJson no_json) {
  Json list = Json::array();
  for (const Value& item : items) {
    list.push_back(plain_json(item, no_json));
  }
  return list;
}

Json plain_dict(const Dict& dict, NoJson no_json) {
  Json object = Json::object();
  for (const auto& [key, value] : dict) {
    object[key_text(key)] = plain_json(value, no_json);
  }
  return object;
}

bool is_integer(DType dtype) {
  const std::string_view text = name(dtype);
  return text.starts_with("int") || text.starts_with("uint");
}

Json elements_of(const TensorView& tensor) {
  const SharedBytes bytes = tensor.contiguous_bytes();
  Json elements = Json::array();
  if (tensor.dtype == DType::kInt64 || tensor.dtype == DType::kUInt64) {  // exact beyond 2^53, too
    for (std::size_t at = 0; at < bytes.view.size(); at += 8) {
      const auto bits = load_little_endian<std::uint64_t>(bytes.view.data() + at);
      elements.push_back(tensor.dtype == DType::kUInt64 ? Json(bits)
                                                        : Json(static_cast<std::int64_t>(bits)));
    }
    return elements;
  }
  std::vector<double> numbers;
  decode_numbers(tensor.dtype, bytes.view, numbers);
  for (const double number : numbers) {
    if (tensor.dtype == DType::kBool) {
      elements.push_back(number != 0);
    } else if (is_integer(tensor.dtype)) {
      elements.push_back(static_cast<std::int64_t>(number));
    } else {
      elements.push_back(plain_float(number));
    }
  }
  return elements;
}

Json plain_tensor(const TensorView& tensor) {
  constexpr std::int64_t kMaxElements = 1000;
  Json object = {{"dtype", name(tensor.dtype)}, {"shape", tensor.shape}};
  if (tensor.numel() <= kMaxElements) object["elements"] = elements_of(tensor);
  return object;
}

// Writes values that JSON does not have.
Json describe_special(const Value& value) {
  switch (value.kind()) {
    case Kind::kFloat:
      return plain_float(value.as_float());
    case Kind::kComplex: {
      const auto& number = *value.get_if<std::complex<double>>();
      return {plain_float(number.real()), plain_float(number.imag())};
    }
    case Kind::kBytes:
      return {{"bytes", value.as_bytes().data.size()}};
    case Kind::kTimeDelta:
      return value.as_timedelta().total_seconds();
    case Kind::kSize:
      return value.get_if<Size>()->dims;
    case Kind::kDType:
      return "torch." + std::string(name(*value.get_if<DType>()));
    case Kind::kDevice:
      return value.get_if<Device>()->name;
    case Kind::kTensor:
      return plain_tensor(value.as_tensor());
    case Kind::kNdArray:
      return {{"dtype", value.as_ndarray().dtype}, {"shape", value.as_ndarray().shape}};
    case Kind::kTorchConstant:
      return value.get_if<TorchConstant>()->name;
    case Kind::kNumpyScalar:
      return plain_json(value.get_if<NumpyScalar>()->number());
    case Kind::kForeign:
      return {{"object", value.as_foreign().class_name()}};
    default:  // an int beyond 64 bits, as text; other values by their type
      return key_text(value);
  }
}

}  // namespace

Json plain_json(const Value& value, NoJson no_json) {
  switch (value.kind()) {
    case Kind::kNone:
      return nullptr;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int();
    case Kind::kStr:
      return value.as_str();
    case Kind::kList:
    case Kind::kTuple:
      return plain_list(value.as_items(), no_json);
    case Kind::kSet:
      return plain_list(value.as_set().items, no_json);
    case Kind::kDict:
      return plain_dict(value.as_dict(), no_json);
    case Kind::kFloat:
      if (std::isfinite(value.as_float())) return value.as_float();
      break;
    default:
      break;
  }
  return no_json == NoJson::kDescribed ? describe_special(value) : Json(nullptr);
}

}  // namespace cairn

#include "cairn/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "cairn/error.h"
#include "cairn/export.h"
#include "cairn/foreign.h"

#include "value/value_compare.h"

namespace cairn {
namespace {

using detail::SharedObject;

[[noreturn]] void wrong_kind(std::string_view wanted, const Value& found) {
  if (found.is_foreign()) {
    throw UnsupportedError("expected " + std::string(wanted) + ", found an object of " +
                           found.as_foreign().class_name() +
                           ", and cairn runs no code from a file, so only its data is there");
  }
  throw UsageError("expected " + std::string(wanted) + ", found " + std::string(found.type_name()));
}

}  // namespace

Value::Value(BigInt v) : data_(SharedObject(std::move(v))) {}
Value::Value(std::complex<double> v) : data_(SharedObject(v)) {}
Value::Value(std::string v) : data_(SharedObject(std::move(v))) {}
Value::Value(Bytes v) : data_(SharedObject(std::move(v))) {}
Value::Value(List v) : data_(SharedObject(std::move(v))) {}
Value::Value(Tuple v) : data_(SharedObject(std::move(v))) {}
Value::Value(Set v) : data_(SharedObject(std::move(v))) {}
Value::Value(Dict v) : data_(SharedObject(std::move(v))) {}
Value::Value(TimeDelta v) : data_(SharedObject(v)) {}
Value::Value(Size v) : data_(SharedObject(std::move(v))) {}
Value::Value(Device v) : data_(SharedObject(std::move(v))) {}
Value::Value(TensorView v) : data_(SharedObject(std::move(v))) {}
Value::Value(NdArray v) : data_(SharedObject(std::move(v))) {}
Value::Value(SparseTensor v) : data_(SharedObject(std::move(v))) {}
Value::Value(TorchConstant v) : data_(SharedObject(std::move(v))) {}
Value::Value(NumpyScalar v) : data_(SharedObject(v)) {}
Value::Value(std::shared_ptr<const Foreign> v) : data_(SharedObject(std::move(v))) {}

BigInt Value::big_int(std::uint64_t v) {
  BigInt result;
  for (int i = 0; i < 8; ++i) {
    result.twos_complement.push_back(static_cast<char>(v >> (8 * i)));
  }
  result.twos_complement.push_back('\0');
  return result;
}

namespace {

std::string_view dict_name(DictType type) {
  constexpr std::string_view kDictNames[] = {"dict", "OrderedDict", "Counter", "defaultdict"};
  return kDictNames[static_cast<std::size_t>(type)];
}

std::string_view constant_type(std::string_view name) {
  if (name.starts_with("torch.per_")) return "qscheme";
  return name.ends_with("_format") || name.starts_with("torch.channels_last") ? "memory_format"
                                                                              : "layout";
}

}  // namespace

std::string_view Value::type_name() const {
  switch (kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kComplex:
      return "complex";
    case Kind::kStr:
      return "str";
    case Kind::kBytes:
      return as_bytes().is_bytearray ? "bytearray" : "bytes";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kSet:
      return as_set().frozen ? "frozenset" : "set";
    case Kind::kDict:
      return dict_name(as_dict().type());
    case Kind::kTimeDelta:
      return "timedelta";
    case Kind::kSize:
      return "torch.Size";
    case Kind::kDType:
      return "dtype";
    case Kind::kDevice:
      return "device";
    case Kind::kTensor:
      return "tensor";
    case Kind::kNdArray:
      return "ndarray";
    case Kind::kSparse:
      return "sparse tensor";
    case Kind::kTorchConstant:
      return constant_type(get_if<TorchConstant>()->name);
    case Kind::kNumpyScalar:
      return "numpy scalar";
    case Kind::kForeign:
      return "foreign object";
  }
  return "unknown";
}

bool Value::as_bool() const {
  if (const auto* v = get_if<bool>()) return *v;
  if (const auto* v = get_if<NumpyScalar>(); v && v->type == 'b') return v->number().as_bool();
  wrong_kind("bool", *this);
}

std::int64_t Value::as_int() const {
  if (const auto* v = get_if<std::int64_t>()) return *v;
  if (const auto* v = get_if<NumpyScalar>(); v && (v->type == 'i' || v->type == 'u')) {
    return v->number().as_int();
  }
  wrong_kind("int", *this);
}

double Value::as_float() const {
  if (const auto* v = get_if<double>()) return *v;
  if (const auto* v = get_if<std::int64_t>()) return static_cast<double>(*v);
  if (const auto* v = get_if<NumpyScalar>(); v && v->type != 'b' && v->type != 'c') {
    return v->number().as_float();
  }
  wrong_kind("float", *this);
}

const std::string& Value::as_str() const {
  if (const auto* v = get_if<std::string>()) return *v;
  wrong_kind("str", *this);
}

const Bytes& Value::as_bytes() const {
  if (const auto* v = get_if<Bytes>()) return *v;
  wrong_kind("bytes", *this);
}

const List& Value::as_items() const {
  if (const auto* v = get_if<List>()) return *v;
  if (const auto* v = get_if<Tuple>()) return v->items;
  wrong_kind("list or tuple", *this);
}

const Set& Value::as_set() const {
  if (const auto* v = get_if<Set>()) return *v;
  wrong_kind("set", *this);
}

const Dict& Value::as_dict() const {
  if (const auto* v = get_if<Dict>()) return *v;
  wrong_kind("dict", *this);
}

TimeDelta Value::as_timedelta() const {
  if (const auto* v = get_if<TimeDelta>()) return *v;
  wrong_kind("timedelta", *this);
}

const TensorView& Value::as_tensor() const {
  if (const auto* v = get_if<TensorView>()) return *v;
  wrong_kind("tensor", *this);
}

const NdArray& Value::as_ndarray() const {
  if (const auto* v = get_if<NdArray>()) return *v;
  wrong_kind("ndarray", *this);
}

const SparseTensor& Value::as_sparse() const {
  if (const auto* v = get_if<SparseTensor>()) return *v;
  wrong_kind("sparse tensor", *this);
}

const Foreign& Value::as_foreign() const {
  if (const auto* v = get_if<std::shared_ptr<const Foreign>>()) return **v;
  wrong_kind("foreign object", *this);
}

List& Value::mutable_list() {
  auto* v = std::get_if<SharedObject<List>>(&data_);
  if (v == nullptr) wrong_kind("list", *this);
  return v->own();
}

Dict& Value::mutable_dict() {
  auto* v = std::get_if<SharedObject<Dict>>(&data_);
  if (v == nullptr) wrong_kind("dict", *this);
  return v->own();
}

const Value& Value::at(std::string_view key) const { return as_dict().at(key); }

const Value* Value::find(std::string_view key) const {
  return is_dict() ? as_dict().find_text(key) : nullptr;
}

const void* Value::identity() const {
  if (const auto* tensor = std::get_if<SharedObject<TensorView>>(&data_)) return tensor->identity();
  if (is_foreign()) return get_if<std::shared_ptr<const Foreign>>()->get();
  return std::visit(
      [this](const auto& v) -> const void* {
        if constexpr (requires { v.identity(); }) {
          const Kind k = kind();
          const bool is_object =
              (k >= Kind::kBytes && k <= Kind::kDict) || (k >= Kind::kTensor && k <= Kind::kSparse);
          return is_object ? v.identity() : nullptr;
        } else {
          return nullptr;
        }
      },
      data_);
}

bool Value::may_be_shared() const {
  if (const auto* tensor = std::get_if<SharedObject<TensorView>>(&data_)) {
    return tensor->is_shared();  // in most states all values are tensors
  }
  if (is_foreign()) return true;
  return std::visit(
      [](const auto& v) -> bool {
        if constexpr (requires { v.is_shared(); }) return v.is_shared();
        return false;
      },
      data_);
}

Value empty_container(Kind kind) {
  Value value;
  switch (kind) {
    case Kind::kList:
      value.data_ = SharedObject<List>();
      break;
    case Kind::kTuple:
      value.data_ = SharedObject<Tuple>();
      break;
    case Kind::kSet:
      value.data_ = SharedObject<Set>();
      break;
    case Kind::kDict:
      value.data_ = SharedObject<Dict>();
      break;
    default:
      throw UsageError("this kind is not a container");
  }
  return value;
}

// Only a class declares it, so its namespace does not make it public.
CAIRN_PUBLIC bool operator==(const Value& a, const Value& b) { return equal_values(a, b); }

}  // namespace cairn

#include "cairn/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "base/value_compare.h"

namespace cairn {
namespace {

template <class T>
std::shared_ptr<const T> share(T v) {
  return std::make_shared<T>(std::move(v));
}

// The object behind a shared pointer to change; a copy of it when somebody else holds it, too.
// Every such object was created non-const by share().
template <class T>
T& make_unique_object(std::shared_ptr<const T>& pointer) {
  if (pointer.use_count() > 1) pointer = std::make_shared<T>(*pointer);
  return const_cast<T&>(*pointer);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

[[noreturn]] void wrong_kind(std::string_view wanted, const Value& found) {
  if (found.is_foreign()) {
    throw UnsupportedError("expected " + std::string(wanted) + ", found an object of " +
                           found.as_foreign().class_name() +
                           ", and cairn runs no code from a file: only its data is there");
  }
  throw UsageError("expected " + std::string(wanted) + ", found " + std::string(found.type_name()));
}

}  // namespace

Value::Value(List v) : data_(share(std::move(v))) {}
Value::Value(Tuple v) : data_(share(std::move(v))) {}
Value::Value(Set v) : data_(share(std::move(v))) {}
Value::Value(Dict v) : data_(share(std::move(v))) {}
Value::Value(TensorView v) : data_(share(std::move(v))) {}
Value::Value(NdArray v) : data_(share(std::move(v))) {}
Value::Value(SparseTensor v) : data_(share(std::move(v))) {}

BigInt Value::big_int(std::uint64_t v) {
  BigInt result;
  for (int i = 0; i < 8; ++i) {
    result.twos_complement.push_back(static_cast<char>(v >> (8 * i)));
  }
  result.twos_complement.push_back('\0');
  return result;
}

std::string BigInt::decimal() const {
  std::vector<std::uint32_t> digits;  // base 10^9, least significant first
  std::string magnitude = twos_complement;
  const bool negative = !magnitude.empty() && (static_cast<unsigned char>(magnitude.back()) & 0x80);
  if (negative) {
    unsigned carry = 1;
    for (char& c : magnitude) {
      const unsigned v = (~static_cast<unsigned>(static_cast<unsigned char>(c)) & 0xFF) + carry;
      c = static_cast<char>(v);
      carry = v >> 8;
    }
  }
  for (std::size_t i = magnitude.size(); i-- > 0;) {
    std::uint64_t carry = static_cast<unsigned char>(magnitude[i]);
    for (auto& digit : digits) {
      carry += std::uint64_t{digit} << 8;
      digit = static_cast<std::uint32_t>(carry % 1'000'000'000);
      carry /= 1'000'000'000;
    }
    if (carry > 0) digits.push_back(static_cast<std::uint32_t>(carry));
  }
  if (digits.empty()) return "0";
  std::string text = (negative ? "-" : "") + std::to_string(digits.back());
  for (std::size_t i = digits.size() - 1; i-- > 0;) {
    const std::string part = std::to_string(digits[i]);
    text += std::string(9 - part.size(), '0') + part;
  }
  return text;
}

namespace {

std::string_view dict_name(DictType type) {
  constexpr std::string_view kNames[] = {"dict", "OrderedDict", "Counter", "defaultdict"};
  return kNames[static_cast<std::size_t>(type)];
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
      return std::get<Bytes>(data_).is_bytearray ? "bytearray" : "bytes";
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
  if (const auto* v = get_if<std::shared_ptr<const List>>()) return **v;
  if (const auto* v = get_if<std::shared_ptr<const Tuple>>()) return (*v)->items;
  wrong_kind("list or tuple", *this);
}

const Set& Value::as_set() const {
  if (const auto* v = get_if<std::shared_ptr<const Set>>()) return **v;
  wrong_kind("set", *this);
}

const Dict& Value::as_dict() const {
  if (const auto* v = get_if<std::shared_ptr<const Dict>>()) return **v;
  wrong_kind("dict", *this);
}

TimeDelta Value::as_timedelta() const {
  if (const auto* v = get_if<TimeDelta>()) return *v;
  wrong_kind("timedelta", *this);
}

const TensorView& Value::as_tensor() const {
  if (const auto* v = get_if<std::shared_ptr<const TensorView>>()) return **v;
  wrong_kind("tensor", *this);
}

const NdArray& Value::as_ndarray() const {
  if (const auto* v = get_if<std::shared_ptr<const NdArray>>()) return **v;
  wrong_kind("ndarray", *this);
}

const SparseTensor& Value::as_sparse() const {
  if (const auto* v = get_if<std::shared_ptr<const SparseTensor>>()) return **v;
  wrong_kind("sparse tensor", *this);
}

const Foreign& Value::as_foreign() const {
  if (const auto* v = get_if<std::shared_ptr<const Foreign>>()) return **v;
  wrong_kind("foreign object", *this);
}

List& Value::mutable_list() {
  auto* v = std::get_if<std::shared_ptr<const List>>(&data_);
  if (v == nullptr) wrong_kind("list", *this);
  return make_unique_object(*v);
}

Dict& Value::mutable_dict() {
  auto* v = std::get_if<std::shared_ptr<const Dict>>(&data_);
  if (v == nullptr) wrong_kind("dict", *this);
  return make_unique_object(*v);
}

const Value& Value::at(std::string_view key) const { return as_dict().at(key); }

const Value* Value::find(std::string_view key) const {
  return is_dict() ? as_dict().find(Value(key)) : nullptr;
}

const void* Value::identity() const {
  return std::visit(
      [](const auto& v) -> const void* {
        if constexpr (requires { v.get(); }) {
          return v.get();
        } else {
          return nullptr;
        }
      },
      data_);
}

bool operator==(const Value& a, const Value& b) { return equal_values(a, b); }

// --- Dict ---------------------------------------------------------------------------------------

namespace {
constexpr std::size_t kScanLimit = 8;  // smaller dicts are searched front to back
constexpr std::uint32_t kEmptySlot = ~std::uint32_t{0};

// Where the search for `key` begins. The hash of an int is the int: without mixing, multiples of a
// power of two would all begin at one slot.
std::size_t first_slot(const Value& key, std::size_t mask) {
  return (hash_value(key) * 0x9e3779b97f4a7c15ULL >> 32) & mask;
}
}  // namespace

struct Dict::Extras {
  Value attributes = {};
  Value default_factory = {};
};

Dict::Dict(std::initializer_list<Entry> entries, bool ordered)
    : type_(ordered ? DictType::kOrderedDict : DictType::kDict) {
  for (const auto& [key, value] : entries) {
    set(key, value);
  }
}

Dict Dict::empty_like() const {
  Dict dict(type_);
  dict.extras_ = extras_;
  return dict;
}

const Value& Dict::attributes() const {
  static const Value none;
  return extras_ ? extras_->attributes : none;
}

const Value& Dict::default_factory() const {
  static const Value none;
  return extras_ ? extras_->default_factory : none;
}

Dict::Extras& Dict::mutable_extras() {
  if (!extras_) extras_ = std::make_shared<Extras>();
  return make_unique_object(extras_);
}

void Dict::set_attributes(Value attributes) { mutable_extras().attributes = std::move(attributes); }

void Dict::set_default_factory(Value factory) {
  mutable_extras().default_factory = std::move(factory);
}

const Value* Dict::find(const Value& key) const {
  if (slots_.empty()) {
    const auto it = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return e.first == key; });
    return it == entries_.end() ? nullptr : &it->second;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = first_slot(key, mask);; i = (i + 1) & mask) {
    if (slots_[i] == kEmptySlot) return nullptr;
    const Entry& entry = entries_[slots_[i]];
    if (entry.first == key) return &entry.second;
  }
}

Value* Dict::find(const Value& key) {
  return const_cast<Value*>(std::as_const(*this).find(key));  // NOLINT
}

const Value& Dict::at(std::string_view key) const {
  if (const Value* value = find(Value(key))) return *value;
  std::string there;
  for (const auto& [k, v] : entries_) {
    if (there.size() > 200) {
      there += ", ...";
      break;
    }
    there += (there.empty() ? "" : ", ") + (k.is_str() ? k.as_str() : std::string(k.type_name()));
  }
  throw NotFoundError("no key \"" + std::string(key) +
                      "\"; there are: " + (there.empty() ? "none" : there));
}

void Dict::set(Value key, Value value) {
  hash_value(key);  // refuses unhashable keys in small dicts, too
  if (Value* existing = find(key)) {
    *existing = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() > kScanLimit) {
    if (entries_.size() * 2 > slots_.size()) {
      index_all();
    } else {
      const std::size_t mask = slots_.size() - 1;
      std::size_t i = first_slot(entries_.back().first, mask);
      while (slots_[i] != kEmptySlot) {
        i = (i + 1) & mask;
      }
      slots_[i] = static_cast<std::uint32_t>(entries_.size() - 1);
    }
  }
}

void Dict::index_all() {
  slots_.clear();
  if (entries_.size() <= kScanLimit) return;
  slots_.assign(std::bit_ceil(entries_.size() * 4), kEmptySlot);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t n = 0; n < entries_.size(); ++n) {
    std::size_t i = first_slot(entries_[n].first, mask);
    while (slots_[i] != kEmptySlot) {
      i = (i + 1) & mask;
    }
    slots_[i] = static_cast<std::uint32_t>(n);
  }
}

Value& Dict::operator[](std::string_view key) {
  const Value name(key);
  if (Value* existing = find(name)) return *existing;
  set(name, None{});
  return entries_.back().second;
}

bool Dict::erase(const Value& key) {
  const Value* found = find(key);
  if (found == nullptr) return false;
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return &e.second == found; });
  entries_.erase(it);
  index_all();
  return true;
}

}  // namespace cairn

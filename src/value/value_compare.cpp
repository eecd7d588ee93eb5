#include "value/value_compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "core/hash/seeded_hash.h"
#include "value/tensor/tensor_part.h"

namespace cairn {
namespace {

bool equal_items(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal_values);
}

bool equal_sets(const Set& a, const Set& b) {
  if (a.items.size() != b.items.size()) return false;
  Dict others;
  others.reserve(b.items.size());
  for (const Value& item : b.items) {
    others.set(item, None{});
  }
  return std::all_of(a.items.begin(), a.items.end(),
                     [&](const Value& v) { return others.find(v) != nullptr; });
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && *other == entry.second;
  });
}

bool equal_bytes(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool equal_elements(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         equal_bytes(a.contiguous_bytes().view, b.contiguous_bytes().view);
}

bool equal_tensors(const TensorView& a, const TensorView& b) {
  return equal_parts(a, b) && equal_quantizers(a.quantizer.get(), b.quantizer.get()) &&
         equal_elements(a, b);
}

bool equal_sparse(const SparseTensor& a, const SparseTensor& b) {
  const auto parts = parts_of(a);
  const auto others = parts_of(b);
  return a.layout == b.layout && a.shape == b.shape &&
         std::equal(
             parts.begin(), parts.end(), others.begin(), others.end(),
             [](const auto& x, const auto& y) { return equal_tensors(*x.second, *y.second); });
}

// In Python a class is one object, wherever it is named. Other foreign objects are equal only if
// they are the same object.
bool equal_names(const Foreign& a, const Foreign& b) {
  return a.made == Foreign::Made::kNamed && b.made == a.made && a.module == b.module &&
         a.name == b.name;
}

bool is_number(Kind kind) {
  return kind == Kind::kBool || kind == Kind::kInt || kind == Kind::kFloat;
}

// Returns bool and int as int64, float as double: Python compares them by value.
std::variant<std::int64_t, double> number_of(const Value& v) {
  if (const auto* b = v.get_if<bool>()) return std::int64_t{*b};
  if (const auto* i = v.get_if<std::int64_t>()) return *i;
  return *v.get_if<double>();
}

// Sets `out` to the int64 with exactly this value. Returns false if there is none.
bool to_exact_int(double d, std::int64_t& out) {
  if (!(d >= -9.2233720368547758e18 && d < 9.2233720368547758e18) || d != std::trunc(d))
    return false;
  out = static_cast<std::int64_t>(d);
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x.index() == y.index()) return x == y;
  std::int64_t whole = 0;
  const double d = std::holds_alternative<double>(x) ? std::get<double>(x) : std::get<double>(y);
  const auto i =
      std::holds_alternative<double>(x) ? std::get<std::int64_t>(y) : std::get<std::int64_t>(x);
  return to_exact_int(d, whole) && whole == i;
}

std::size_t combine(std::size_t seed, std::size_t hash) {
  return seeded_hash(seed * 0x9e3779b97f4a7c15ULL + hash);
}

// Equal numbers have equal hashes: 1 == 1.0 == True. A NaN equals nothing and is hashed by its
// place, as in Python. So a lookup need not compare all tuples that hold NaNs. If two tuples have a
// NaN at the same place, they are one object.
std::size_t hash_double(double d, const void* place) {
  std::int64_t whole = 0;
  if (std::isnan(d)) return seeded_hash(std::bit_cast<std::uintptr_t>(place));
  if (to_exact_int(d, whole)) return seeded_hash(static_cast<std::uint64_t>(whole));
  return seeded_hash(std::bit_cast<std::uint64_t>(d));
}

std::size_t hash_int(std::int64_t v) { return seeded_hash(static_cast<std::uint64_t>(v)); }

std::size_t hash_complex(const std::complex<double>& c, const void* place) {
  return combine(hash_double(c.real(), place), hash_double(c.imag(), place));
}

// Hashes a numpy scalar as the Python number that it equals.
std::size_t hash_numpy(const Value& key) {
  const Value number = key.get_if<NumpyScalar>()->number();
  if (number.kind() == Kind::kFloat) return hash_double(number.as_float(), &key);
  if (const auto* c = number.get_if<std::complex<double>>()) return hash_complex(*c, &key);
  return hash_value(number);
}

std::size_t hash_number(const Value& key) {
  if (key.kind() == Kind::kBool) return hash_int(key.as_bool() ? 1 : 0);
  if (key.kind() == Kind::kInt) return hash_int(key.as_int());
  return hash_double(key.as_float(), &key);
}

template <class Items, class Hash>
std::size_t hash_sequence(std::size_t seed, const Items& items, Hash hash) {
  for (const auto& item : items) {
    seed = combine(seed, hash(item));
  }
  return seed;
}

std::size_t hash_unordered(const List& items) {
  std::size_t hash = 0x1927;
  for (const Value& item : items) {
    hash += hash_value(item);
  }
  return hash;
}

std::size_t hash_identity(const Value& key) {
  return seeded_hash(std::bit_cast<std::uintptr_t>(key.identity()));
}

// Hashes by identity, as Python does for objects whose class does not define a hash. Hashes a class
// by its name.
std::size_t hash_foreign(const Value& key) {
  const Foreign& foreign = key.as_foreign();
  if (foreign.made != Foreign::Made::kNamed) return hash_identity(key);
  return combine(seeded_hash(foreign.module), seeded_hash(foreign.name));
}

}  // namespace

bool equal_quantizers(const Quantizer* a, const Quantizer* b) {
  if (a == nullptr || b == nullptr) return a == b;
  if (a->axis != b->axis) return false;
  if (!a->axis) return a->scale == b->scale && a->zero_point == b->zero_point;
  return equal_elements(a->scales, b->scales) && equal_elements(a->zero_points, b->zero_points);
}

bool is_nan(const Value& v) {
  if (const auto* d = v.get_if<double>()) return std::isnan(*d);
  if (const auto* c = v.get_if<std::complex<double>>()) {
    return std::isnan(c->real()) || std::isnan(c->imag());
  }
  const auto* scalar = v.get_if<NumpyScalar>();
  return scalar != nullptr && is_nan(scalar->number());
}

bool equal_values(const Value& a, const Value& b) {
  if (const auto* scalar = a.get_if<NumpyScalar>()) return equal_values(scalar->number(), b);
  if (const auto* scalar = b.get_if<NumpyScalar>()) return equal_values(a, scalar->number());
  if (is_number(a.kind()) && is_number(b.kind())) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  if (a.identity() != nullptr && a.identity() == b.identity()) return true;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBigInt:
      return *a.get_if<BigInt>() == *b.get_if<BigInt>();
    case Kind::kComplex:
      return *a.get_if<std::complex<double>>() == *b.get_if<std::complex<double>>();
    case Kind::kStr:
      return a.as_str() == b.as_str();
    case Kind::kBytes:
      return a.as_bytes().data == b.as_bytes().data;
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(a.as_items(), b.as_items());
    case Kind::kSet:
      return equal_sets(a.as_set(), b.as_set());
    case Kind::kDict:
      return equal_dicts(a.as_dict(), b.as_dict());
    case Kind::kTimeDelta:
      return a.as_timedelta() == b.as_timedelta();
    case Kind::kSize:
      return *a.get_if<Size>() == *b.get_if<Size>();
    case Kind::kDType:
      return *a.get_if<DType>() == *b.get_if<DType>();
    case Kind::kDevice:
      return *a.get_if<Device>() == *b.get_if<Device>();
    case Kind::kTensor:
      return equal_tensors(a.as_tensor(), b.as_tensor());
    case Kind::kNdArray:
      return a.as_ndarray().dtype == b.as_ndarray().dtype &&
             a.as_ndarray().shape == b.as_ndarray().shape &&
             equal_bytes(a.as_ndarray().bytes.view, b.as_ndarray().bytes.view);
    case Kind::kSparse:
      return equal_sparse(a.as_sparse(), b.as_sparse());
    case Kind::kTorchConstant:
      return *a.get_if<TorchConstant>() == *b.get_if<TorchConstant>();
    case Kind::kForeign:
      return equal_names(a.as_foreign(), b.as_foreign());
    default:
      return false;  // numbers were handled above
  }
}

bool equal_keys(const Value& a, const Value& b) {
  if (a.is_tensor() || a.kind() == Kind::kSparse) return a.identity() == b.identity();
  if (!a.is_tuple() || !b.is_tuple()) return equal_values(a, b);
  if (a.identity() == b.identity()) return true;
  return std::equal(a.as_items().begin(), a.as_items().end(), b.as_items().begin(),
                    b.as_items().end(), equal_keys);
}

std::size_t hash_value(const Value& key) {
  switch (key.kind()) {
    case Kind::kNone:
      return seeded_hash(0x7b1e);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return hash_number(key);
    case Kind::kBigInt:
      return seeded_hash(key.get_if<BigInt>()->twos_complement);
    case Kind::kComplex: {
      const auto& c = *key.get_if<std::complex<double>>();
      return hash_complex(c, &key);
    }
    case Kind::kStr:
      return TextHash()(key.as_str());
    case Kind::kBytes:
      if (key.as_bytes().is_bytearray) break;
      return combine(1, seeded_hash(key.as_bytes().data));
    case Kind::kTuple:
      return hash_sequence(0x345678, key.as_items(), hash_value);
    case Kind::kSet:
      if (!key.as_set().frozen) break;
      return hash_unordered(key.as_set().items);
    case Kind::kTimeDelta: {
      const TimeDelta d = key.as_timedelta();
      return combine(hash_int(d.days),
                     hash_int(d.seconds * std::int64_t{1'000'000} + d.microseconds));
    }
    case Kind::kSize:
      return hash_sequence(0x517e, key.get_if<Size>()->dims, hash_int);
    case Kind::kDType:
      return combine(2, static_cast<std::size_t>(*key.get_if<DType>()));
    case Kind::kDevice:
      return combine(3, seeded_hash(key.get_if<Device>()->name));
    case Kind::kTorchConstant:
      return combine(4, seeded_hash(key.get_if<TorchConstant>()->name));
    case Kind::kNumpyScalar:
      return hash_numpy(key);
    case Kind::kForeign:
      return hash_foreign(key);
    case Kind::kTensor:
    case Kind::kSparse:
      return hash_identity(key);
    default:
      break;
  }
  throw UsageError("a " + std::string(key.type_name()) + " cannot be a dict key");
}

}  // namespace cairn

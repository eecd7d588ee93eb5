// Value: a tree of state. In Python it is an object made of dicts, lists, numbers and tensors.
//
// A checkpoint is one Value. Leaves keep Python's types, so Python gets the same objects when a
// Value that was read from a file is written again. int and float stay apart, tuples stay tuples,
// and dict keys may be of any type and keep their order.
//
// A Value is small (16 bytes) and cheap to copy. Larger contents (texts, containers, tensors) are
// shared and copied on write, so a copy behaves like a deep one. Reading one Value from several
// threads is safe; changing it needs the usual exclusion. Containers never form cycles.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/detail/shared_object.h"
#include "cairn/export.h"
#include "cairn/sparse_tensor.h"
#include "cairn/tensor.h"
#include "cairn/time.h"

namespace CAIRN_PUBLIC cairn {

class Value;
class Dict;
struct Foreign;  // cairn/foreign.h: an object of a class that cairn does not know

// Python's None.
struct None {
  bool operator==(const None&) const = default;
};

// An integer outside int64: two's complement, little-endian, no superfluous sign bytes.
struct BigInt {
  std::string twos_complement;
  // Decimal as Python prints it, for up to Python's limit of 4,300 digits. Longer integers are
  // hexadecimal, "-0x1f...", which takes time in proportion to their length.
  std::string text() const;
  bool operator==(const BigInt&) const = default;
};

// bytes, or bytearray when `is_bytearray`.
struct Bytes {
  std::string data;
  bool is_bytearray = false;
  bool operator==(const Bytes&) const = default;
};

using List = std::vector<Value>;

struct Tuple {
  List items;
};

// set, or frozenset if `frozen`. Keeps the file's insertion order.
struct Set {
  List items;
  bool frozen = false;
};

// torch.Size.
struct Size {
  Dims dims;
  bool operator==(const Size&) const = default;
};

// torch.device: "cpu", "cuda:1".
struct Device {
  std::string name;
  bool operator==(const Device&) const = default;
};

// A torch.layout, torch.memory_format or torch.qscheme, which consist of a name only:
// "torch.strided", "torch.channels_last", "torch.per_tensor_affine".
struct TorchConstant {
  std::string name;
  bool operator==(const TorchConstant&) const = default;
};

// The name of numpy's inner module in a file. numpy before 1.26 knows only numpy 1's name.
// PyTorch's weights_only, with Composer's list, knows only numpy 2's name. kNone: the file names
// numpy.ndarray itself, which all of these know; that works only for arrays. A Value that was read
// keeps its name.
enum class NumpyNames : std::uint8_t { kNumpy2, kNumpy1, kNone };

// A numpy array of numbers: `dtype` is numpy's code without byte order ("u4", "f8").
struct NdArray {
  std::string dtype;
  Dims shape;
  SharedBytes bytes;  // little-endian, C order
  // The file has column order, as numpy held it; `bytes` are in C order all the same
  bool is_fortran = false;
  NumpyNames names = NumpyNames::kNumpy2;
};

// A scalar of numpy's, such as numpy.float32(0.5): a dtype and its bytes.
struct NumpyScalar {
  char type = 'f';  // numpy's letter: b i u f c
  std::uint8_t size = 8;
  NumpyNames names = NumpyNames::kNumpy2;
  std::array<std::byte, 16> bytes = {};  // the first `size` bytes are used, little-endian

  std::string dtype() const { return type + std::to_string(size); }
  ByteView view() const { return {bytes.data(), size}; }
  // The Python number of the same value: a bool, int, float or complex.
  Value number() const;
};

enum class Kind : std::uint8_t {  // in the order of Value's alternatives
  kNone,
  kBool,
  kInt,
  kBigInt,
  kFloat,
  kComplex,
  kStr,
  kBytes,
  kList,
  kTuple,
  kSet,
  kDict,
  kTimeDelta,
  kSize,
  kDType,
  kDevice,
  kTensor,
  kNdArray,
  kSparse,
  kTorchConstant,
  kNumpyScalar,
  kForeign,
};

class Value {
 public:
  Value() = default;  // None
  // NOLINTBEGIN(google-explicit-constructor): literals read like Python
  Value(None) {}
  template <std::integral T>  // a template, so that no pointer turns into a bool
  Value(T v) {
    if constexpr (std::same_as<T, bool>) {
      data_ = v;
    } else if (std::in_range<std::int64_t>(v)) {
      data_ = static_cast<std::int64_t>(v);
    } else {
      *this = Value(big_int(v));
    }
  }
  Value(BigInt v);
  Value(double v) : data_(v) {}
  Value(std::complex<double> v);
  Value(const char* v) : Value(std::string(v)) {}
  Value(std::string v);
  Value(std::string_view v) : Value(std::string(v)) {}
  Value(Bytes v);
  Value(List v);
  Value(Tuple v);
  Value(Set v);
  Value(Dict v);
  Value(TimeDelta v);
  Value(Size v);
  Value(DType v) : data_(v) {}
  Value(Device v);
  Value(TensorView v);
  Value(NdArray v);
  Value(SparseTensor v);
  Value(TorchConstant v);
  Value(NumpyScalar v);
  // NOLINTEND(google-explicit-constructor)
  explicit Value(std::shared_ptr<const Foreign> v);  // cairn/foreign.h

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  // The Python name of the type: "dict", "OrderedDict", "int", "tensor". For messages.
  std::string_view type_name() const;

  bool is_none() const { return kind() == Kind::kNone; }
  bool is_int() const { return kind() == Kind::kInt; }
  bool is_str() const { return kind() == Kind::kStr; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_tuple() const { return kind() == Kind::kTuple; }
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_tensor() const { return kind() == Kind::kTensor; }  // false for a sparse tensor
  bool is_foreign() const { return kind() == Kind::kForeign; }

  // The content. Throws UsageError naming both types if it is of another type; for a Foreign,
  // UnsupportedError naming the class. Also, as_bool(), as_int() and as_float() accept numpy's
  // numbers of their kind. as_float() accepts an int, as Python does; as_items() a list or a tuple.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_float() const;
  const std::string& as_str() const;
  const Bytes& as_bytes() const;
  const List& as_items() const;
  const Set& as_set() const;
  const Dict& as_dict() const;
  TimeDelta as_timedelta() const;
  const TensorView& as_tensor() const;
  const NdArray& as_ndarray() const;
  const SparseTensor& as_sparse() const;
  const Foreign& as_foreign() const;
  template <class T>
  const T* get_if() const {  // BigInt, std::complex<double>, Size, DType, Device, ...
    if constexpr (std::is_arithmetic_v<T> || std::same_as<T, None> || std::same_as<T, DType>) {
      return std::get_if<T>(&data_);
    } else {
      const auto* shared = std::get_if<Shared<T>>(&data_);
      return shared == nullptr ? nullptr : &**shared;
    }
  }

  // The content for changes. Copies it first if it is shared.
  List& mutable_list();  // a list only
  Dict& mutable_dict();

  // A dict's entry by string key. at() throws NotFoundError naming the key and the existing ones;
  // find() returns nullptr.
  const Value& at(std::string_view key) const;
  const Value* find(std::string_view key) const;

  // The identity of the shared container, tensor or bytes. Two Values with the same identity are
  // one object, like two references to one dict in Python. The identity is nullptr for scalars, and
  // for an empty container that a file refers to once, which takes no memory of its own.
  const void* identity() const;
  // Whether another Value may have the same identity(). If false, code that walks a tree need not
  // remember this Value, since it will not occur again. Always true for a Foreign.
  bool may_be_shared() const;

  // Equality by content, as in Python: 1 == 1.0 == True, lists by items, dicts without regard to
  // order, OrderedDict like dict. Tensors are equal if dtype, shape, every byte and the quantizer
  // are equal; sparse tensors if layout, shape and their parts are. A numpy number equals Python's.
  // Foreign objects are equal only if they are one object. Tensors as keys of dicts or items of
  // sets are also equal only if they are one object, as in Python. So such dicts from two reads of
  // one file are not equal.
  friend bool operator==(const Value& a, const Value& b);

 private:
  template <class T>
  using Shared = detail::SharedObject<T>;
  using Data =
      std::variant<None, bool, std::int64_t, Shared<BigInt>, double, Shared<std::complex<double>>,
                   Shared<std::string>, Shared<Bytes>, Shared<List>, Shared<Tuple>, Shared<Set>,
                   Shared<Dict>, Shared<TimeDelta>, Shared<Size>, DType, Shared<Device>,
                   Shared<TensorView>, Shared<NdArray>, Shared<SparseTensor>, Shared<TorchConstant>,
                   Shared<NumpyScalar>, Shared<std::shared_ptr<const Foreign>>>;
  friend Value empty_container(Kind kind);
  static BigInt big_int(std::uint64_t v);

  Data data_;
};

// A list, tuple, set or dict without items, which takes no memory: see Value::identity().
Value empty_container(Kind kind);

// dict, and its subclasses in Python's `collections` that state holds.
enum class DictType : std::uint8_t { kDict, kOrderedDict, kCounter, kDefaultDict };

// A dict: insertion-ordered, with keys of any hashable kind. A tensor is a key by its identity().
// So an optimizer's state is found by the parameter itself, and not by a copy of it.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  Dict() = default;
  Dict(  // of torch: view_of(tensor), state_dict(*net), optimizer_state_dict(optimizer, *net)
      std::initializer_list<Entry> entries, bool ordered = false);
  explicit Dict(DictType type) : type_(type) {}
  static Dict ordered(std::initializer_list<Entry> entries = {}) { return {entries, true}; }
  // A dict without entries, of the same type, with the same attributes and factory.
  Dict empty_like() const;

  DictType type() const { return type_; }
  bool is_ordered() const { return type_ == DictType::kOrderedDict; }

  // The attributes of Python's object, beside its entries: the `_metadata` of a module's
  // state_dict() is {"_metadata": ...} here. None if there are none.
  const Value& attributes() const;
  void set_attributes(Value attributes);
  // The factory of a defaultdict: a Foreign that names a class (never called), or None.
  const Value& default_factory() const;
  void set_default_factory(Value factory);

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  // In insertion order.
  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }

  // nullptr if there is no such key. Average constant time.
  const Value* find(const Value& key) const;
  Value* find(const Value& key);

  // The value of a string key. Throws NotFoundError naming the key and the existing ones.
  const Value& at(std::string_view key) const;

  // Replaces the value of an equal key, which keeps its place, or appends the entry. A NaN equals
  // no key, so it is always appended. Throws UsageError for a key that Python could not hash (list,
  // dict, set, array).
  void set(Value key, Value value);
  // Reserves memory for this many entries in all.
  void reserve(std::size_t entries);

  // The value of `key`. A new key gets the value None.
  Value& operator[](std::string_view key);

  // Returns false if there is no such key. Linear time.
  bool erase(const Value& key);

 private:
  friend class Value;
  const Value* find_text(std::string_view key) const;
  template <class IsKey>
  const Value* find_if(std::size_t hash, IsKey is_key) const;
  void index_all(std::size_t slots);
  void append(Value key, Value value, std::size_t hash);

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // open addressing over entries_; empty for few entries
  struct Extras {
    Value attributes = {};
    Value default_factory = {};
  };
  detail::SharedObject<Extras> extras_;
  DictType type_ = DictType::kDict;
};

// The hash of a key: the same for all keys that a Dict considers equal. Other processes get other
// hashes, so that no file can be made whose keys collide. Throws UsageError for an unhashable kind.
std::size_t hash_value(const Value& key);

// --- Paths: "/"-joined keys, by which messages, globs and tools name a part of the tree. --------

// The part at "state/model/module.0.weight": dict keys and list indices joined by "/". nullptr if
// there is no such part. Indices also work in tuples.
const Value* find_path(const Value& root, std::string_view path);

// Every tensor with its path, in tree order. A tensor at two places is listed twice. A sparse
// tensor is listed by its parts ("w/indices"), a DTensor (cairn/dtensor.h) by its shard.
std::vector<std::pair<std::string, const TensorView*>> tensors_of(const Value& root);

}  // namespace cairn

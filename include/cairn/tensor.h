// Tensors as the core sees them: a dtype, a shape, strides, and a place in a storage. No
// arithmetic, and no bytes owned that need not be: a view of a mapped file or of live memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/byte_source.h"

namespace cairn {

// The shape of a tensor, its strides, or where it begins in a larger one: one number for each
// dimension.
using Dims = std::vector<std::int64_t>;

// PyTorch's scalar types, by PyTorch's names ("float32" is DType::kFloat32). torch.save files
// of all of them can be read and written; what this libtorch can compute with tensor_of() says.
enum class DType : std::uint8_t {
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBFloat16,
  kComplex32,
  kComplex64,
  kComplex128,
  kBool,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
  kFloat4E2M1FNx2,
  kQInt8,
  kQUInt8,
  kQInt32,
  kQUInt4x2,
  kQUInt2x4,
  kBits8,
  kBits16,
  kBits1x8,
  kBits2x4,
  kBits4x2,
};

// Bytes of one element (of one byte of packed elements for the sub-byte types).
std::size_t item_size(DType dtype);

// How many elements one byte holds: 2 and 4 for quint4x2 and quint2x4, whose shapes count elements,
// otherwise 1.
std::size_t elements_per_byte(DType dtype);

// PyTorch's name without "torch.": "float32", "bfloat16", "float8_e4m3fn".
std::string_view name(DType dtype);

// The inverse of name(); nullopt for a name that is none.
std::optional<DType> find_dtype(std::string_view name);

// One allocation that tensors point into, wherever its bytes are: in memory, in a range of a
// source, or nowhere until they are asked for. storage_of() makes those; code that has memory of
// another kind, as that of a device, derives its own. Tensors that are tied or are views of one
// another hold the same Storage object, and are written as one record.
//
// Immutable; safe to read from several threads.
class Storage {
 public:
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage() = default;

  // In bytes.
  std::uint64_t size() const { return size_; }
  // Where PyTorch had it: "cpu", "cuda:0". A name that is written and read; it says nothing about
  // where the bytes are now.
  const std::string& location() const { return location_; }

  // Fills `into` with the bytes from `offset` on, little-endian elements: the way to have bytes at
  // a place of one's own. Costs what these take; where all are made at once, what all take.
  // UsageError when that reaches outside, StorageError when they cannot be read, CorruptError when
  // what they are made of is damaged; then what stands in `into` is undefined. Any range, also an
  // empty one, and one that begins or ends inside an element.
  void read_into(std::uint64_t offset, std::span<std::byte> into) const;

  // All bytes where they lie, if looking at them costs nothing: they are in memory, or in a file
  // that was mapped. Otherwise nullopt: then read_into(), or bytes().
  virtual std::optional<SharedBytes> try_view() const { return std::nullopt; }

  // All bytes: what try_view() gives, otherwise read or made now, each time anew. Keep what is
  // returned for as long as the view is used: it may be the only owner. Throws as read_into().
  SharedBytes bytes() const;
  // `size` of them from `offset` on: of a range of a source no others are read, nor are they where
  // `size` is at most 32 MiB and a part can be made alone. UsageError when that reaches outside.
  SharedBytes bytes(std::uint64_t offset, std::uint64_t size) const;

  // Of a range of a source: which, and where in it, so that many can be read with one call.
  // Otherwise nullptr, and 0.
  virtual const ByteSource* source() const { return nullptr; }
  virtual std::uint64_t source_offset() const { return 0; }

 protected:
  Storage(std::uint64_t size, std::string location) : size_(size), location_(std::move(location)) {}

  // read_into(), of a range that lies inside and is not empty.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;
  // bytes() where try_view() has none. By default read() into memory: for what may be larger than
  // that, and for what is made all at once, override it. CorruptError is thrown by bytes() when it
  // has another length.
  virtual SharedBytes load() const;

 private:
  void check_range(std::uint64_t offset, std::uint64_t size) const;

  std::uint64_t size_;
  std::string location_;
};

// In memory: little-endian elements.
std::shared_ptr<const Storage> storage_of(SharedBytes bytes, std::string location = "cpu");
// A range of a source: read, or viewed, when it is asked for.
std::shared_ptr<const Storage> storage_of(std::shared_ptr<const ByteSource> source,
                                          std::uint64_t offset, std::uint64_t size,
                                          std::string location = "cpu");
// Bytes that are made all at once when they are asked for, each time anew: elements in another byte
// order. `make` gives exactly `size` bytes or throws CorruptError or StorageError. What can be made
// in part is better a Storage of its own.
std::shared_ptr<const Storage> storage_of(std::uint64_t size, std::function<SharedBytes()> make,
                                          std::string location = "cpu");

struct Quantizer;

// Which part of a larger tensor the elements are, where a rank holds no more of it (FSDP, tensor
// parallelism): a box. Both count elements, one number for each dimension.
struct TensorPart {
  Dims global_shape = {};
  Dims offsets = {};  // of the box; as large as the shape of its tensor

  bool operator==(const TensorPart&) const = default;
};

// A strided tensor. Copies share the storage, and keep it alive: of a checkpoint that was loaded,
// the mapped file with it. `storage_offset` and `strides` count elements. Nothing is checked when
// one is made; check_bounds() does, and what reads elements.
struct TensorView {
  DType dtype = DType::kFloat32;
  Dims shape = {};
  Dims strides = {};
  std::int64_t storage_offset = 0;
  std::shared_ptr<const Storage> storage = nullptr;
  bool requires_grad = false;  // as it was saved; means nothing to the core
  bool is_parameter = false;   // was a torch.nn.Parameter, which only whole modules hold
  // Of a quantized tensor (dtype qint8, ...), whose elements are integers; otherwise null.
  std::shared_ptr<const Quantizer> quantizer = nullptr;
  // Names of the attributes that Python gave the tensor in its file ("partition_dim, tag and 2
  // more"); they are not kept. Null: it has none.
  std::shared_ptr<const std::string> lost_attributes = nullptr;
  // Null: the elements are a whole tensor. Otherwise `shape` is that of the part, and everything
  // here is about the part's own elements. Only a torch.distributed.checkpoint folder can say so:
  // writing one elsewhere is an UnsupportedError, and not a file that forgets it.
  std::shared_ptr<const TensorPart> part = nullptr;

  // Product of the shape; 1 for a scalar.
  std::int64_t numel() const;
  bool is_contiguous() const;

  // The elements in row-major order, little-endian; a copy when they do not lie so. CorruptError
  // when they reach outside the storage, or repeat so often that the copy would be absurdly large.
  SharedBytes contiguous_bytes() const;
};

// What the integers of a quantized tensor stand for: scale * (integer - zero point).
struct Quantizer {
  double scale = 1;
  std::int64_t zero_point = 0;
  // Quantized per channel: the dimension along which each index has its own scale and zero point,
  // which stand in one-dimensional tensors. Those of PyTorch's float_qparams scheme are float32.
  std::optional<std::int64_t> axis = std::nullopt;
  TensorView scales = {};
  TensorView zero_points = {};
};

// Bytes of all elements, without regard to how often the storage holds them: what a copy in
// row-major order takes.
std::uint64_t byte_size(const TensorView& tensor);

// Row-major strides of a shape, in elements, as PyTorch has them.
Dims contiguous_strides(const Dims& shape);

// A contiguous tensor over `bytes`, which must hold exactly the elements of `shape`; UsageError
// otherwise.
TensorView make_tensor(DType dtype, Dims shape, SharedBytes bytes);

// Throws CorruptError unless every element lies inside the storage (checked arithmetic; shape and
// strides of equal length; nothing negative), and its part, if it is one, in the whole. A tensor
// without elements may point anywhere.
void check_bounds(const TensorView& tensor);
// The same for a storage of so many bytes, whatever `tensor` points into.
void check_bounds(const TensorView& tensor, std::uint64_t storage_bytes);

}  // namespace cairn

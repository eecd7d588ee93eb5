// Tensors in the core: a dtype, a shape, strides, and a range of a storage. No arithmetic. A tensor
// can be a view of a mapped file or of live memory, so bytes are copied only if necessary.
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
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// The shape of a tensor, its strides, or its offsets in a larger one: one number for each
// dimension.
using Dims = std::vector<std::int64_t>;

// PyTorch's scalar types, by PyTorch's names ("float32" is DType::kFloat32). torch.save files of
// all of them can be read and written; tensor_of() refuses the types that this libtorch lacks.
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

// Bytes of one element. For sub-byte types: of one byte of packed elements.
std::size_t item_size(DType dtype);

// Elements in one byte: 2 and 4 for quint4x2 and quint2x4, whose shapes count elements; otherwise
// 1.
std::size_t elements_per_byte(DType dtype);

// PyTorch's name without "torch.": "float32", "bfloat16", "float8_e4m3fn".
std::string_view name(DType dtype);

// The inverse of name(); nullopt for an unknown name.
std::optional<DType> find_dtype(std::string_view name);

// One allocation that tensors point into. The bytes of a Storage are in memory, in a range of a
// source, or made when they are asked for: storage_of() makes these three kinds. Code with another
// kind of memory, such as a device's, derives its own class. Tensors that are tied, or are views of
// one another, hold the same Storage object and are written as one record.
//
// Immutable, so safe to read from several threads.
class Storage {
 public:
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage() = default;

  // In bytes.
  std::uint64_t size() const { return size_; }
  // Where PyTorch had the tensor: "cpu", "cuda:0". This name is written and read; it does not say
  // where the bytes are now.
  const std::string& location() const { return location_; }

  // Fills `into` with the bytes from `offset` on, as little-endian elements. Use it to get bytes at
  // a place of your own. Costs as much as these bytes, or as much as all bytes if they are made all
  // at once. Accepts any range, also an empty one, and one that begins or ends inside an element.
  // Throws UsageError if the range reaches outside, StorageError if the bytes cannot be read,
  // CorruptError if they are made from damaged bytes. After an error the content of `into` is
  // undefined.
  void read_into(std::uint64_t offset, std::span<std::byte> into) const;

  // All bytes in place, if a view costs nothing: they are in memory or in a mapped file. Otherwise
  // nullopt: use read_into() or bytes().
  virtual std::optional<SharedBytes> try_view() const { return std::nullopt; }

  // All bytes: what try_view() gives, or else bytes that are read or made now, at each call. Keep
  // the result as long as you use its view: it may be the only owner. Throws as read_into() does.
  SharedBytes bytes() const;
  // `size` bytes from `offset` on. For a range of a source, only these bytes are read. For other
  // storages, only these bytes are read or made if `size` is at most 32 MiB and a part can be made
  // alone. Throws UsageError if the range reaches outside.
  SharedBytes bytes(std::uint64_t offset, std::uint64_t size) const;

  // The source and the offset in it, if this is a range of a source, so that one call can read many
  // ranges. Otherwise nullptr, and 0.
  virtual const ByteSource* source() const { return nullptr; }
  virtual std::uint64_t source_offset() const { return 0; }

 protected:
  Storage(std::uint64_t size, std::string location) : size_(size), location_(std::move(location)) {}

  // Implements read_into() for a range that is not empty and lies inside of the storage.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;
  // Implements bytes() if try_view() has none. The default calls read() into memory. Override it
  // for bytes that may not fit into memory, or that are made all at once. bytes() throws
  // CorruptError if the result has another length.
  virtual SharedBytes load() const;

 private:
  void check_range(std::uint64_t offset, std::uint64_t size) const;

  std::uint64_t size_;
  std::string location_;
};

// A storage in memory: little-endian elements.
std::shared_ptr<const Storage> storage_of(SharedBytes bytes, std::string location = "cpu");
// A storage that is a range of a source, read or viewed when it is asked for.
std::shared_ptr<const Storage> storage_of(std::shared_ptr<const ByteSource> source,
                                          std::uint64_t offset, std::uint64_t size,
                                          std::string location = "cpu");
// A storage whose bytes are made all at once when they are asked for, at each call, such as
// elements in another byte order. `make` returns exactly `size` bytes, or throws CorruptError or
// StorageError. If a part of the bytes can be made alone, derive a class from Storage instead.
std::shared_ptr<const Storage> storage_of(std::uint64_t size, std::function<SharedBytes()> make,
                                          std::string location = "cpu");

struct Quantizer;

// The part of a larger tensor that a rank holds (FSDP, tensor parallelism): a box. Both members
// count elements, with one number for each dimension.
struct TensorPart {
  Dims global_shape = {};
  Dims offsets = {};  // where the box begins; the box's size is the shape of its tensor

  bool operator==(const TensorPart&) const = default;
};

// A strided tensor. Copies share the storage and keep it alive, and with it the mapped file of a
// loaded checkpoint. `storage_offset` and `strides` count elements. Constructing a TensorView
// checks nothing. check_bounds() checks it, and so does code that reads elements.
struct TensorView {
  DType dtype = DType::kFloat32;
  Dims shape = {};
  Dims strides = {};
  std::int64_t storage_offset = 0;
  std::shared_ptr<const Storage> storage = nullptr;
  bool requires_grad = false;  // as it was saved; the core does not use it
  bool is_parameter = false;   // it was a torch.nn.Parameter, which only whole modules hold
  // Set for a quantized tensor (dtype qint8, ...), whose elements are integers.
  std::shared_ptr<const Quantizer> quantizer = nullptr;
  // Names of the attributes that the tensor had in Python ("partition_dim, tag and 2 more"), which
  // are not kept. Null: it had none.
  std::shared_ptr<const std::string> lost_attributes = nullptr;
  // Null: this is a whole tensor. Otherwise this is a part, and everything here describes the
  // part's own elements. Only a torch.distributed.checkpoint folder can store parts; writing one
  // elsewhere is an UnsupportedError, since the result would no longer be marked as a part.
  std::shared_ptr<const TensorPart> part = nullptr;

  // Product of the shape; 1 for a scalar.
  std::int64_t numel() const;
  bool is_contiguous() const;

  // The elements in row-major order, little-endian; a copy if they are not stored so. Throws
  // CorruptError if they reach outside the storage, or if they repeat so often that the copy would
  // be out of proportion.
  SharedBytes contiguous_bytes() const;
};

// The meaning of a quantized tensor's integers: scale * (integer - zero point).
struct Quantizer {
  double scale = 1;
  std::int64_t zero_point = 0;
  // For quantization per channel: the dimension along which each index has its own scale and zero
  // point, in the one-dimensional tensors below. These tensors are float32 in PyTorch's
  // float_qparams scheme.
  std::optional<std::int64_t> axis = std::nullopt;
  TensorView scales = {};
  TensorView zero_points = {};
};

// Bytes of all elements, counting repeated ones each time: the size of a copy in row-major order.
std::uint64_t byte_size(const TensorView& tensor);

// Row-major strides of a shape, in elements, as PyTorch has them.
Dims contiguous_strides(const Dims& shape);

// A contiguous tensor over `bytes`. Throws UsageError unless `bytes` hold exactly the elements of
// `shape`.
TensorView make_tensor(DType dtype, Dims shape, SharedBytes bytes);

// Throws CorruptError unless every element lies inside the storage, and a part inside its whole
// tensor. Checks with overflow detection that shape and strides have equal length, and that nothing
// is negative. A tensor without elements may point anywhere.
void check_bounds(const TensorView& tensor);
// As above, for a storage of `storage_bytes` bytes, whatever `tensor` points into.
void check_bounds(const TensorView& tensor, std::uint64_t storage_bytes);

}  // namespace cairn

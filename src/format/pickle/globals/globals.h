// The functions and classes that a pickle may name, and what each makes.
//
// This table is closed: a name that is not in it stays a mere name, from which only placeholders
// are made (foreign_objects.h). Nothing here runs code from a file, makes system calls, or
// allocates more than its arguments already hold.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "format/pickle/globals/tensor_bits.h"
#include "format/pickle/read/graph.h"

namespace cairn::pickle {

// Provides the storages that lie outside the pickle.
class StorageLoader {
 public:
  virtual ~StorageLoader() = default;
  // Returns the same object for the same key. Throws CorruptError if the storage is missing, or not
  // what `reference` says.
  virtual std::shared_ptr<const Storage> load(const StorageReference& reference) = 0;
  // Returns the storage for a tensor of `dtype`. `storage` is from load(), for a reference without
  // a dtype. By default this is `storage` itself.
  virtual std::shared_ptr<const Storage> storage_for_dtype(std::shared_ptr<const Storage> storage,
                                                           std::string_view key, DType dtype);
  // Returns `storage` with pending bits applied, as with_bits_resolved() does. Tensors with the
  // same storage, dtype and bits get the same object. So tensors that share a storage still share
  // one, and the result is made only once for each dtype and bits.
  std::shared_ptr<const Storage> resolve_bits(const std::shared_ptr<const Storage>& storage,
                                              DType dtype, PendingBits pending);

 private:
  using Wanted = std::tuple<std::shared_ptr<const Storage>, DType, bool, bool>;
  std::map<Wanted, std::shared_ptr<const Storage>> resolved_;
};

struct Call;

struct Global {
  std::string_view module;
  std::string_view name;     // "*": every name in the module and in its submodules
  Ref (*call)(const Call&);  // nullptr: the global is only used as an argument
};

// One call of a global. The accessors throw CorruptError, which names the global, if the argument
// is missing or of another type.
struct Call {
  Graph& graph;
  StorageLoader& storages;
  const Global& global;
  std::span<const Ref> args;

  const Ref& arg(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;
  double number(std::size_t i) const;  // float or int
  bool boolean(std::size_t i) const;
  std::string_view text(std::size_t i) const;
  std::span<const Ref> items(std::size_t i) const;  // of a list or tuple
  Dims integers(std::size_t i) const;
  std::string bytes(std::size_t i) const;
  void expect_args(std::size_t min, std::size_t max) const;
  [[noreturn]] void fail(const std::string& what) const;
};

// Returns what "GLOBAL module name" pushes. For a name that is in no table, this is a ForeignName.
// `more` holds rows for one kind of file, which are searched first. Throws CorruptError for a text
// that cannot be a name.
Ref resolve_global(Graph& graph, std::string_view module, std::string_view name,
                   std::span<const Global> more = {});

// Returns whether the row is one of PyTorch's names for layouts, memory formats and quantization
// schemes.
bool is_torch_constant(const Global& global);

// The `call` of a class whose instances are only data: makes an Object.
Ref make_object(const Call& call);

// The rows of the table. Each of these functions is in a file of its own.
std::span<const Global> python_globals();
std::span<const Global> torch_globals();
std::span<const Global> sparse_globals();
std::span<const Global> quantized_globals();
std::span<const Global> numpy_globals();
// Names that only TorchScript archives may use.
std::span<const Global> script_globals();

// Makes a tensor from the leading arguments that all of PyTorch's rebuild functions share: storage,
// offset, size, stride. `dtype` is for storages without a dtype of their own.
TensorView tensor_argument(const Call& call, std::optional<DType> dtype = std::nullopt);
// Checks a finished tensor: its elements must lie in its storage. Throws CorruptError otherwise.
void check_tensor(const TensorView& tensor);
// Applies argument `i`, which says whether `tensor` requires a gradient.
void set_requires_grad(const Call& call, std::size_t i, TensorView& tensor);
// Returns argument `i`, which must be a dense tensor.
const TensorView& dense_argument(const Call& call, std::size_t i);

// Run BUILD on a numpy object.
void build_numpy_dtype(const Call& state, NumpyDType& dtype);
Value build_numpy_array(const Call& state, NumpyNames names);

}  // namespace cairn::pickle

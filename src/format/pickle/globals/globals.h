// The functions and classes that a pickle may name, and the data that each stands for.
//
// This table is closed: what is not in it is a name and nothing else, from which only placeholders
// are made (foreign_objects.h). Nothing here runs code of a file, touches the system or allocates
// more than its arguments already hold.
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

// Gives the bytes of storages that lie outside the pickle.
class StorageLoader {
 public:
  virtual ~StorageLoader() = default;
  // One object per key. CorruptError when it is not there or not what `reference` says.
  virtual std::shared_ptr<const Storage> load(const StorageReference& reference) = 0;
  // `storage`, which load() gave for a reference without a dtype, for a tensor of `dtype`.
  virtual std::shared_ptr<const Storage> of_elements(std::shared_ptr<const Storage> storage,
                                                     std::string_view key, DType dtype);
  // `storage` as with_bits_resolved() gives it, one object for all its tensors of one kind: what
  // they share stays shared, and is resolved a few times at most, however many they are.
  std::shared_ptr<const Storage> resolved(const std::shared_ptr<const Storage>& storage,
                                          DType dtype, PendingBits pending);

 private:
  using Wanted = std::tuple<std::shared_ptr<const Storage>, DType, bool, bool>;
  std::map<Wanted, std::shared_ptr<const Storage>> resolved_;
};

struct Call;

struct Global {
  std::string_view module;
  std::string_view name;     // "*": every name in the module and in those below it
  Ref (*call)(const Call&);  // nullptr: only ever an argument
};

// One call of a global. The accessors throw CorruptError naming the global when the argument is
// missing or of another type.
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

// What "GLOBAL module name" pushes: for a name that is in no table, a ForeignName. `more` are rows
// for one kind of file, looked at first. CorruptError for what cannot be a name.
Ref resolve_global(Graph& graph, std::string_view module, std::string_view name,
                   std::span<const Global> more = {});

// Whether the row is one of PyTorch's names for layouts, memory formats and quantization schemes.
bool is_torch_constant(const Global& global);

// The `call` of a class whose instances are data: makes an Object.
Ref make_object(const Call& call);

// The rows of the table, one file each.
std::span<const Global> python_globals();
std::span<const Global> torch_globals();
std::span<const Global> sparse_globals();
std::span<const Global> quantized_globals();
std::span<const Global> numpy_globals();
// What only TorchScript archives may name.
std::span<const Global> script_globals();

// The leading arguments that all of PyTorch's rebuild functions share: storage, offset, size,
// stride. `dtype` when the storage does not say it.
TensorView tensor_argument(const Call& call, std::optional<DType> dtype = std::nullopt);
// The end of making any: its elements lie in its storage. CorruptError.
void check_tensor(const TensorView& tensor);
// Argument `i`, which says whether `tensor` requires a gradient.
void set_requires_grad(const Call& call, std::size_t i, TensorView& tensor);
// A finished tensor as argument.
const TensorView& dense_argument(const Call& call, std::size_t i);

// BUILD on a numpy object.
void build_numpy_dtype(const Call& state, NumpyDType& dtype);
Value build_numpy_array(const Call& state, NumpyNames names);

}  // namespace cairn::pickle

#include "format/pickle/read/graph.h"

#include <array>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {

namespace {

constexpr std::uint64_t kNodeBytes = sizeof(Node) + 2;  // with its share of the blocks
constexpr std::uint64_t kCounted = 8;                   // the reference count of a SharedObject

// A Storage, its entry in a table by key, and the owner of its bytes.
constexpr std::uint64_t kStorageBytes = 512;

std::uint64_t text_bytes(const std::string& text) {
  constexpr std::size_t kInside = 15;  // bytes that a std::string holds in itself
  return text.size() <= kInside ? 0 : MemoryBudget::allocation(text.size() + 1);
}

template <class T>
std::uint64_t object_bytes() {
  return MemoryBudget::allocation(kCounted + sizeof(T));
}

std::uint64_t bytes_within(const TensorView& tensor) {
  std::uint64_t bytes = kStorageBytes + bytes_beside(tensor.shape) + bytes_beside(tensor.strides);
  if (tensor.quantizer == nullptr) return bytes;
  bytes += MemoryBudget::allocation(2 * kCounted + sizeof(Quantizer));
  for (const TensorView* part : {&tensor.quantizer->scales, &tensor.quantizer->zero_points}) {
    bytes += bytes_beside(part->shape) + bytes_beside(part->strides);
  }
  return bytes;
}

std::uint64_t array_bytes(const NdArray& array) {
  return object_bytes<NdArray>() + kStorageBytes + bytes_beside(array.shape) +
         MemoryBudget::allocation(array.bytes.view.size());
}

std::uint64_t sparse_bytes(const SparseTensor& sparse) {
  std::uint64_t bytes = object_bytes<SparseTensor>() + bytes_beside(sparse.shape);
  for (const auto& [name, part] : parts_of(sparse)) {
    bytes += bytes_within(*part);
  }
  return bytes;
}

std::uint64_t foreign_bytes(const Foreign& foreign) {
  constexpr std::uint64_t kCounts = 2 * sizeof(void*);  // std::make_shared's counts
  return object_bytes<std::shared_ptr<const Foreign>>() +
         MemoryBudget::allocation(kCounts + sizeof(Foreign)) + text_bytes(foreign.module) +
         text_bytes(foreign.name);
}

}  // namespace

std::uint64_t bytes_beside(const Dims& numbers) {
  if (numbers.empty()) return 0;
  return MemoryBudget::allocation(numbers.size() * sizeof(std::int64_t));
}

std::uint64_t owned_bytes(const Value& value) {
  switch (value.kind()) {
    case Kind::kBigInt:
      return object_bytes<BigInt>() + text_bytes(value.get_if<BigInt>()->twos_complement);
    case Kind::kComplex:
      return object_bytes<std::complex<double>>();
    case Kind::kStr:
      return object_bytes<std::string>() + text_bytes(value.as_str());
    case Kind::kBytes:
      return object_bytes<Bytes>() + text_bytes(value.as_bytes().data);
    case Kind::kTimeDelta:
      return object_bytes<TimeDelta>();
    case Kind::kSize:
      return object_bytes<Size>() + bytes_beside(value.get_if<Size>()->dims);
    case Kind::kDevice:
      return object_bytes<Device>() + text_bytes(value.get_if<Device>()->name);
    case Kind::kTensor:
      return object_bytes<TensorView>() + bytes_within(value.as_tensor());
    case Kind::kNdArray:
      return array_bytes(value.as_ndarray());
    case Kind::kSparse:
      return sparse_bytes(value.as_sparse());
    case Kind::kTorchConstant:
      return object_bytes<TorchConstant>() + text_bytes(value.get_if<TorchConstant>()->name);
    case Kind::kNumpyScalar:
      return object_bytes<NumpyScalar>();
    case Kind::kForeign:
      return foreign_bytes(value.as_foreign());
    default:
      return 0;
  }
}

Graph::~Graph() { budget_.give_back(nodes_.size() * kNodeBytes); }

void Graph::charge(std::uint64_t references) {
  constexpr std::uint64_t kFree = std::uint64_t{8} << 20;
  constexpr std::uint64_t kPerByte = 8;
  charged_references_ += references;
  if (charged_references_ > kFree + kPerByte * budget_.file_bytes()) {
    throw CorruptError(
        "the pickle repeats objects so often that it grows out of proportion to its size");
  }
}

DictExtras& Graph::extras(NodeId id) {
  const auto [entry, is_new] = extras_.try_emplace(static_cast<std::uint32_t>(id));
  if (is_new) {
    budget_.take(2 * MemoryBudget::allocation(sizeof(DictExtras) + 2 * sizeof(void*)));
  }
  return entry->second;
}

const DictExtras* Graph::find_extras(NodeId id) const {
  const auto found = extras_.find(static_cast<std::uint32_t>(id));
  return found == extras_.end() ? nullptr : &found->second;
}

Ref Graph::add(Node node) {
  budget_.take(kNodeBytes);
  if (const auto* value = std::get_if<Value>(&node)) budget_.take(owned_bytes(*value));
  if (nodes_.size() > 0xFFFFFFFE) throw CorruptError("the pickle holds too many objects");
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

Ref Graph::add(StorageReference reference) {
  budget_.take(MemoryBudget::allocation(sizeof(reference)));
  return add(Node(&storages_.push_back(reference)));
}

Ref Graph::add(Object object) {
  budget_.take(MemoryBudget::allocation(sizeof(object)));
  return add(Node(std::make_unique<Object>(std::move(object))));
}

Ref Graph::add(NumpyArrayShell shell) {
  budget_.take(MemoryBudget::allocation(sizeof(shell)));
  return add(Node(std::make_unique<NumpyArrayShell>(shell)));
}

Ref Graph::add(ForeignName name) {
  budget_.take(MemoryBudget::allocation(sizeof(name)));
  return add(Node(std::make_unique<ForeignName>(name)));
}

Ref Graph::add_integer(std::int64_t v) {
  const auto ref = Ref::of(v);
  return ref ? *ref : add(Node(v));
}

Ref Graph::add_real(double v) {
  const auto ref = Ref::of(v);
  return ref ? *ref : add(Node(v));
}

std::string_view Graph::keep(std::string text) {
  budget_.take(sizeof(text) + text_bytes(text));
  return texts_.emplace_back(std::move(text));
}

void Graph::replace(NodeId id, Node new_node) {
  if (const auto* value = std::get_if<Value>(&new_node)) budget_.take(owned_bytes(*value));
  node(id) = std::move(new_node);
}

std::optional<std::int64_t> Graph::integer(const Ref& ref) const {
  if (const auto v = ref.small_int()) return v;
  if (const auto* v = find<std::int64_t>(ref)) return *v;
  return std::nullopt;
}

std::optional<double> Graph::real(const Ref& ref) const {
  if (const auto v = ref.plain_float()) return v;
  if (const auto* v = find<double>(ref)) return *v;
  return std::nullopt;
}

std::string Graph::describe(const Ref& ref) const {
  if (ref.is_none()) return "None";
  if (ref.boolean()) return "a bool";
  if (const auto i = integer(ref)) return "the number " + std::to_string(*i);
  if (real(ref)) return "a float";
  if (const auto* container = find<Container>(ref)) {
    constexpr std::array kNames = {
        "a list",          "a tuple",
        "a set",           "a frozenset",
        "a dict",          "an OrderedDict",
        "a script object", "a Counter",
        "a defaultdict",   "an object of a class that cairn does not know"};
    if (container->kind == Container::Kind::kForeign) {
      const auto* type = find<ForeignName>(container->items[0]);  // kForeignFunction
      if (type != nullptr) return "an object of " + describe(container->items[0]);
    }
    return kNames[static_cast<std::size_t>(container->kind)];
  }
  if (const auto* name = find<ForeignName>(ref)) {
    return std::string(name->module.substr(0, 200)) + "." + std::string(name->name.substr(0, 200));
  }
  if (const auto* global = find<const Global*>(ref)) {
    return std::string((*global)->module) + "." + std::string((*global)->name);
  }
  if (const auto* object = find<Object>(ref)) {
    return "an object of " + std::string(object->type->module) + "." +
           std::string(object->type->name);
  }
  if (const auto* converted = find<Converted>(ref)) {
    return "a " + std::string(converted->value.type_name());
  }
  if (const auto* value = find<Value>(ref)) {
    if (value->get_if<BigInt>() != nullptr) return "an int beyond 64 bits";
    return "a " + std::string(value->type_name());
  }
  if (find<Text>(ref) != nullptr) return "a str";
  if (find<StorageClass>(ref) != nullptr) return "a storage class";
  if (find<StorageReference>(ref) != nullptr) return "a bare storage";
  return "an unfinished numpy object";
}

}  // namespace cairn::pickle

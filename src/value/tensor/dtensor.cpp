#include "cairn/dtensor.h"

#include <algorithm>
#include <string_view>

#include "cairn/error.h"

namespace cairn {
namespace {

// No job has more ranks, but a file may claim more.
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

const Foreign* as_object(const Value* value) {
  return value != nullptr && value->is_foreign() ? &value->as_foreign() : nullptr;
}

bool is_named(const Value& value, std::string_view module, std::string_view name) {
  const Foreign* named = as_object(&value);
  return named != nullptr && named->made == Foreign::Made::kNamed && named->module == module &&
         named->name == name;
}

// The class is torch.distributed._tensor.api.DTensor up to PyTorch 2.4, then
// torch.distributed.tensor.DTensor.
bool is_dtensor_class(const Value& value) {
  const Foreign* named = as_object(&value);
  if (named == nullptr || named->made != Foreign::Made::kNamed) return false;
  const std::string_view module = named->module;
  const bool is_there = module.starts_with("torch.distributed.tensor") ||
                        module.starts_with("torch.distributed._tensor");
  return is_there && named->name == "DTensor";
}

// Finds an attribute in the state that BUILD gives an object. The state is a dict, or a pair of a
// dict (or None) and a dict of the attributes that have slots.
const Value* attribute_in(const Value& state, std::string_view name) {
  if (state.is_dict()) return state.find(name);
  if (!state.is_tuple()) return nullptr;
  for (const Value& part : state.as_items()) {
    if (!part.is_dict()) continue;
    if (const Value* found = part.find(name)) return found;
  }
  return nullptr;
}

const Value* attribute(const Foreign* object, std::string_view name) {
  if (object == nullptr || !object->has_state) return nullptr;
  return attribute_in(object->state, name);
}

// Returns the attribute `name`, or else the attribute `other`: names differ between releases.
const Value* attribute(const Foreign* object, std::string_view name, std::string_view other) {
  const Value* found = attribute(object, name);
  return found != nullptr ? found : attribute(object, other);
}

std::optional<Dims> numbers_in(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (const Size* size = value->get_if<Size>()) return size->dims;
  if (!value->is_tuple() && !value->is_list()) return std::nullopt;
  Dims numbers;
  for (const Value& item : value->as_items()) {
    if (!item.is_int()) return std::nullopt;
    numbers.push_back(item.as_int());
  }
  return numbers;
}

std::string numbers_text(const Dims& numbers, char open, char close) {
  std::string text(1, open);
  for (const std::int64_t number : numbers) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(number);
  }
  return text + close;
}

// The parts of `_rebuild_from_type_v2(_rebuild_wrapper_subclass, DTensor, arguments, state)`.
struct Parts {
  const Value* type = nullptr;
  const List* arguments = nullptr;
  const Value* state = nullptr;
};

std::optional<Parts> parts_of_dtensor(const Foreign& object) {
  if (object.made != Foreign::Made::kCalled || !object.args.is_tuple()) return std::nullopt;
  const List& args = object.args.as_items();
  const bool is_one = args.size() == 4 &&
                      is_named(object.function, "torch._tensor", "_rebuild_from_type_v2") &&
                      is_named(args[0], "torch._utils", "_rebuild_wrapper_subclass") &&
                      is_dtensor_class(args[1]) && args[2].is_tuple();
  if (!is_one) return std::nullopt;
  return Parts{.type = &args[1], .arguments = &args[2].as_items(), .state = &args[3]};
}

const TensorView* local_in(const Parts& parts) {
  const Value* local = attribute_in(*parts.state, "_local_tensor");
  return local != nullptr && local->is_tensor() ? &local->as_tensor() : nullptr;
}

// The dimensions of a mesh, as PyTorch 2.9 and later lay them out over a list of ranks. Each
// dimension has one or more factors, the last of which changes fastest.
struct Factor {
  std::int64_t size = 1;
  std::int64_t stride = 0;
};
using Factors = std::vector<std::vector<Factor>>;

bool add_factors(const Value& sizes, const Value& strides, std::vector<Factor>& factors) {
  if (sizes.is_int() && strides.is_int()) {
    factors.push_back({sizes.as_int(), strides.as_int()});
    return true;
  }
  const auto size = numbers_in(&sizes);
  const auto stride = numbers_in(&strides);
  if (!size || !stride || size->size() != stride->size()) return false;
  for (std::size_t i = 0; i < size->size(); ++i) {
    factors.push_back({(*size)[i], (*stride)[i]});
  }
  return true;
}

std::optional<Factors> factors_in(const Foreign& layout) {
  Factors dims;
  if (const Value* axes = attribute(&layout, "axes"); axes != nullptr && axes->is_tuple()) {
    for (const Value& axis : axes->as_items()) {
      const Value* size = attribute(as_object(&axis), "shape");
      const Value* stride = attribute(as_object(&axis), "stride");
      if (size == nullptr || stride == nullptr) return std::nullopt;
      if (!add_factors(*size, *stride, dims.emplace_back())) return std::nullopt;
    }
    return dims;
  }
  const Value* sizes = attribute(&layout, "shape");
  const Value* strides = attribute(&layout, "stride");
  if (sizes == nullptr || strides == nullptr) return std::nullopt;
  if (sizes->is_int()) {
    if (!add_factors(*sizes, *strides, dims.emplace_back())) return std::nullopt;
    return dims;
  }
  if (!sizes->is_tuple() || !strides->is_tuple()) return std::nullopt;
  const List& all = sizes->as_items();
  if (strides->as_items().size() != all.size()) return std::nullopt;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!add_factors(all[i], strides->as_items()[i], dims.emplace_back())) return std::nullopt;
  }
  return dims;
}

[[noreturn]] void refuse(const std::string& what) {
  throw CorruptError("a DTensor contradicts itself: " + what);
}

// Multiplies numbers that a file claims. Throws CorruptError for negative numbers, and for a
// product above `most`.
std::int64_t checked_product(const Dims& sizes, std::int64_t most, const char* what) {
  const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || (!is_empty && product > most / std::max<std::int64_t>(size, 1))) {
      refuse(std::string(what) + " " + numbers_text(sizes, '(', ')'));
    }
    if (!is_empty) product *= size;
  }
  return is_empty ? 0 : product;
}

Dims shape_of(const Factors& dims) {
  Dims shape;
  for (const std::vector<Factor>& factors : dims) {
    Dims sizes;
    for (const Factor& factor : factors) {
      sizes.push_back(factor.size);
    }
    shape.push_back(checked_product(sizes, kMaxRanks, "a mesh with a dimension of"));
  }
  return shape;
}

std::optional<Factors> layout_of(const Foreign* mesh) {
  const Foreign* layout = as_object(attribute(mesh, "_layout"));
  return layout == nullptr ? std::nullopt : factors_in(*layout);
}

std::optional<Dims> mesh_shape(const Foreign* mesh) {
  if (const auto dims = layout_of(mesh)) return shape_of(*dims);
  const Value* ranks = attribute(mesh, "mesh", "_mesh");
  if (ranks == nullptr || !ranks->is_tensor()) return std::nullopt;
  return ranks->as_tensor().shape;
}

std::optional<DeviceMesh> read_mesh(const Value* value) {
  const Foreign* object = as_object(value);
  const auto shape = mesh_shape(object);
  if (!shape) return std::nullopt;
  DeviceMesh mesh{.shape = *shape, .object = *value};
  const Value* device = attribute(object, "device_type", "_device_type");
  if (device != nullptr && device->is_str()) mesh.device_type = device->as_str();
  const Value* names = attribute(object, "mesh_dim_names", "_mesh_dim_names");
  if (names != nullptr && names->is_tuple()) {
    for (const Value& name : names->as_items()) {
      if (name.is_str()) mesh.dim_names.push_back(name.as_str());
    }
  }
  mesh.coordinate = numbers_in(attribute(object, "_coordinate_on_dim"));
  return mesh;
}

std::string_view name_of_class(const Foreign& object) {
  const Foreign* type = as_object(&object.function);
  return type == nullptr ? std::string_view() : type->name;
}

// Returns a number that a placement has as an attribute, or as an argument of its constructor.
std::optional<std::int64_t> number_in(const Foreign& placement, std::string_view name,
                                      std::size_t place) {
  const Value* found = attribute(&placement, name);
  for (const Value* list : {&placement.state, &placement.args}) {
    if (found != nullptr || !list->is_tuple() || list->as_items().size() <= place) continue;
    found = &list->as_items()[place];
  }
  if (found == nullptr || !found->is_int()) return std::nullopt;
  return found->as_int();
}

std::optional<Placement> read_placement(const Value& value) {
  const Foreign* object = as_object(&value);
  if (object == nullptr) return std::nullopt;
  const std::string_view name = name_of_class(*object);
  if (name == "Replicate") return Placement{};
  if (name.ends_with("Partial")) {  // also _MaskPartial, _NormPartial
    Placement partial{.kind = Placement::Kind::kPartial};
    const Value* reduce_op = attribute(object, "reduce_op");
    if (reduce_op != nullptr && reduce_op->is_str()) partial.reduce_op = reduce_op->as_str();
    return partial;
  }
  const bool is_strided = name == "_StridedShard" || name == "StridedShard";
  if (name != "Shard" && !is_strided) return std::nullopt;
  const auto dim = number_in(*object, "dim", 0);
  if (!dim) return std::nullopt;
  if (!is_strided) return Placement{.kind = Placement::Kind::kShard, .dim = *dim};
  const auto factor = number_in(*object, "split_factor", 1);
  if (!factor) return std::nullopt;
  return Placement{.kind = Placement::Kind::kStridedShard, .dim = *dim, .split_factor = *factor};
}

std::optional<std::vector<Placement>> read_placements(const Value* value) {
  if (value == nullptr || (!value->is_tuple() && !value->is_list())) return std::nullopt;
  std::vector<Placement> placements;
  for (const Value& item : value->as_items()) {
    const auto placement = read_placement(item);
    if (!placement) return std::nullopt;
    placements.push_back(*placement);
  }
  return placements;
}

bool is_shard_like(const Placement& placement) {
  return placement.kind == Placement::Kind::kShard ||
         placement.kind == Placement::Kind::kStridedShard;
}

// In PyTorch 2.10 and later, shards state the order in which they cut; strided shards imply the
// order.
void read_order(const Foreign* spec, DTensor& tensor) {
  const bool is_strided = std::ranges::any_of(tensor.placements, [](const Placement& placement) {
    return placement.kind == Placement::Kind::kStridedShard;
  });
  const Value* entries = attribute(spec, "shard_order");
  std::vector<bool> is_known(tensor.placements.size(), false);
  if (!is_strided && entries != nullptr && entries->is_tuple()) {
    for (const Value& value : entries->as_items()) {
      const Foreign* entry = as_object(&value);
      const Value& pair = entry == nullptr ? value : entry->args;
      const bool is_pair =
          pair.is_tuple() && pair.as_items().size() == 2 && pair.as_items()[0].is_int();
      const auto dims = is_pair ? numbers_in(&pair.as_items()[1]) : std::nullopt;
      if (!dims) refuse("its shard order has an unknown form");
      for (const std::int64_t dim : *dims) {
        const auto mesh_dim = static_cast<std::size_t>(dim);
        const bool fits = dim >= 0 && mesh_dim < is_known.size() && !is_known[mesh_dim] &&
                          is_shard_like(tensor.placements[mesh_dim]) &&
                          tensor.placements[mesh_dim].dim == pair.as_items()[0].as_int();
        if (!fits) refuse("a shard order with dimension " + std::to_string(dim) + " of the mesh");
        is_known[mesh_dim] = true;
        tensor.order.push_back(mesh_dim);
      }
    }
  }
  for (std::size_t dim = 0; dim < is_known.size(); ++dim) {
    if (!is_known[dim]) tensor.order.push_back(dim);
  }
}

void check_placements(const DTensor& tensor, std::int64_t ranks) {
  if (tensor.placements.size() != tensor.mesh.shape.size()) {
    refuse(std::to_string(tensor.placements.size()) + " placements on a mesh " +
           numbers_text(tensor.mesh.shape, '(', ')'));
  }
  std::int64_t pieces = 1;
  for (const Placement& placement : tensor.placements) {
    if (!is_shard_like(placement)) continue;
    if (placement.dim < 0 || placement.dim >= static_cast<std::int64_t>(tensor.shape.size()) ||
        placement.split_factor < 1 || placement.split_factor > ranks / pieces) {
      refuse(text_of(placement) + " of a tensor " + numbers_text(tensor.shape, '[', ']') +
             " on a mesh " + numbers_text(tensor.mesh.shape, '(', ')'));
    }
    pieces *= placement.split_factor;
  }
}

void check(const DTensor& tensor, DType claimed) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;
  checked_product(tensor.shape, kMaxElements, "a shape");
  const std::int64_t ranks = checked_product(tensor.mesh.shape, kMaxRanks, "a mesh");
  if (ranks == 0) refuse("a mesh without ranks");
  check_placements(tensor, ranks);
  if (tensor.local.dtype != claimed) {
    refuse("a " + std::string(name(claimed)) + " with a shard of " +
           std::string(name(tensor.local.dtype)));
  }
  if (!tensor.mesh.coordinate) return;
  const Dims& at = *tensor.mesh.coordinate;
  const bool is_inside =
      at.size() == tensor.mesh.shape.size() &&
      std::equal(at.begin(), at.end(), tensor.mesh.shape.begin(),
                 [](std::int64_t here, std::int64_t size) { return here >= 0 && here < size; });
  if (!is_inside || tensor.local.shape.size() != tensor.shape.size()) {
    refuse(placement_text(tensor));
  }
}

}  // namespace

const TensorView* local_tensor(const Foreign& object) {
  const auto parts = parts_of_dtensor(object);
  return parts ? local_in(*parts) : nullptr;
}

const TensorView* local_tensor(const Value& value) {
  return value.is_foreign() ? local_tensor(value.as_foreign()) : nullptr;
}

namespace {

std::optional<DTensor> read_dtensor(const Foreign& object) {
  const auto parts = parts_of_dtensor(object);
  const TensorView* local = parts ? local_in(*parts) : nullptr;
  constexpr std::size_t kArguments = 8;  // class, dtype, size, ..., requires_grad
  if (local == nullptr || parts->arguments->size() < kArguments) return std::nullopt;
  const List& arguments = *parts->arguments;
  const auto* dtype = arguments[1].get_if<DType>();
  const auto shape = numbers_in(&arguments[2]);
  const Value* requires_grad = &arguments[kArguments - 1];
  const Foreign* spec = as_object(attribute_in(*parts->state, "_spec"));
  auto mesh = read_mesh(attribute(spec, "mesh"));
  auto placements = read_placements(attribute(spec, "placements"));
  if (dtype == nullptr || !shape || !mesh || !placements) return std::nullopt;
  DTensor tensor{.class_name = object.class_name(),
                 .local = *local,
                 .shape = *shape,
                 .requires_grad = requires_grad->kind() == Kind::kBool && requires_grad->as_bool(),
                 .mesh = std::move(*mesh),
                 .placements = std::move(*placements)};
  check(tensor, *dtype);
  read_order(spec, tensor);
  return tensor;
}

}  // namespace

std::optional<DTensor> find_dtensor(const Foreign& object) {
  try {
    return read_dtensor(object);
  } catch (const CorruptError& e) {
    const TensorView* local = local_tensor(object);
    const ByteSource* file =
        local == nullptr || !local->storage ? nullptr : local->storage->source();
    if (file == nullptr) throw;
    throw CorruptError(file->name() + ": " + e.what(), file->name());
  }
}

namespace {

// Returns the distance in the layout from index 0 to `index` along one dimension. nullopt if it is
// greater than any rank.
std::optional<std::int64_t> offset_of(const std::vector<Factor>& factors, std::int64_t index) {
  std::int64_t offset = 0;
  for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
    if (factor->stride < 0 || factor->stride > kMaxRanks) return std::nullopt;
    offset += index % factor->size * factor->stride;
    index /= factor->size;
  }
  return offset;
}

std::optional<std::int64_t> offset_of(const Factors& dims, const Dims& coordinate) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto step = offset_of(dims[d], coordinate[d]);
    if (!step) return std::nullopt;
    offset += *step;
  }
  return offset;
}

// One layout describes as many meshes as the list of ranks has room for. The rank that wrote the
// file tells where its own mesh begins.
Dims ranks_in_layout(const DeviceMesh& mesh, const Factors& dims, const Dims& all) {
  const Value* rank = attribute(as_object(&mesh.object), "_rank");
  if (rank == nullptr || !rank->is_int() || !mesh.coordinate) return {};
  const auto own = offset_of(dims, *mesh.coordinate);
  const auto place = std::find(all.begin(), all.end(), rank->as_int());
  if (!own || place == all.end()) return {};
  const std::int64_t begin = place - all.begin() - *own;
  Dims ranks;
  Dims at(mesh.shape.size(), 0);
  while (true) {
    const auto offset = offset_of(dims, at);
    const bool is_inside =
        offset && begin + *offset >= 0 && begin + *offset < static_cast<std::int64_t>(all.size());
    if (!is_inside) return {};
    ranks.push_back(all[static_cast<std::size_t>(begin + *offset)]);
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == mesh.shape[d - 1]) {
      at[--d] = 0;
    }
    if (d == 0) return ranks;
  }
}

}  // namespace

Dims mesh_ranks(const DeviceMesh& mesh) {
  const Foreign* object = as_object(&mesh.object);
  const std::int64_t size = checked_product(mesh.shape, kMaxRanks, "a mesh");
  if (const auto ranks = numbers_in(attribute(object, "_flatten_mesh_list"))) {
    return static_cast<std::int64_t>(ranks->size()) == size ? *ranks : Dims();
  }
  const auto dims = layout_of(object);
  const auto all = numbers_in(attribute(object, "_flatten_rank_map"));
  return dims && all ? ranks_in_layout(mesh, *dims, *all) : Dims();
}

std::string text_of(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kReplicate:
      return "Replicate()";
    case Placement::Kind::kShard:
      return "Shard(" + std::to_string(placement.dim) + ")";
    case Placement::Kind::kStridedShard:
      return "_StridedShard(" + std::to_string(placement.dim) +
             ", split_factor=" + std::to_string(placement.split_factor) + ")";
    case Placement::Kind::kPartial:
      break;
  }
  return "Partial(" + placement.reduce_op + ")";
}

std::string placement_text(const DTensor& tensor) {
  std::string placements;
  for (const Placement& placement : tensor.placements) {
    placements += (placements.empty() ? "" : ", ") + text_of(placement);
  }
  const std::string mesh = numbers_text(tensor.mesh.shape, '(', ')');
  return numbers_text(tensor.local.shape, '[', ']') + " of " +
         numbers_text(tensor.shape, '[', ']') + ", (" + placements + ") " +
         (tensor.mesh.coordinate
              ? "at " + numbers_text(*tensor.mesh.coordinate, '(', ')') + " of a mesh " + mesh
              : "outside of its mesh " + mesh);
}

}  // namespace cairn

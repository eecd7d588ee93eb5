// Turns the objects of a `.metadata` pickle into Metadata.
//
//   Metadata
//     state_dict_metadata  {fqn: TensorStorageMetadata(properties, size, chunks) or
//                                BytesStorageMetadata}
//     planner_data         {fqn: path} or None
//     storage_data         {MetadataIndex(fqn, offset): _StorageInfo(file, offset, length)}
//     version              optional
//     storage_meta and fields that other programs add: not read
//
// The root may be of a subclass with more fields, as Megatron-core's is. Those fields
// may hold objects of any class, which stay placeholders.
//
// The structure has a fixed depth, so nothing here recurses. Texts stay views of the file: repeated
// references to a long text take no more memory.
#include <string>
#include <unordered_map>

#include "cairn/error.h"

#include "core/checked.h"
#include "core/hash/seeded_hash.h"
#include "format/dcp/metadata/layout.h"
#include "format/dcp/metadata/metadata.h"
#include "format/dcp/metadata/metadata_classes.h"
#include "format/pickle/globals/foreign_objects.h"
#include "format/pickle/read/machine.h"

namespace cairn::dcp {
namespace {

using pickle::Container;
using pickle::Graph;
using pickle::Object;
using pickle::Ref;

constexpr std::string_view kItems = "state_dict_metadata";
constexpr std::string_view kLocations = "storage_data";

constexpr std::size_t kMaxPath = 1000;  // levels: Python's own limit when it writes a tree
constexpr std::size_t kUsualName = std::size_t{1} << 16;

[[noreturn]] void fail(const std::string& what) { throw CorruptError("the metadata " + what); }

// A metadata file holds no tensors.
class NoStorages final : public pickle::StorageLoader {
 public:
  std::shared_ptr<const Storage> load(const pickle::StorageReference&) override {
    fail("holds a tensor itself");
  }
};

// The key of storage_data. Equality ignores the index hint, as Python's does.
struct Key {
  std::string_view fqn;
  std::optional<Dims> offset;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = seeded_hash(key.fqn);
    if (!key.offset) return hash;
    for (const std::int64_t offset : *key.offset) {
      hash = seeded_hash(hash ^ static_cast<std::uint64_t>(offset));
    }
    return hash + 1;
  }
};
using Locations = std::unordered_map<Key, Location, KeyHash>;

// Returns the objects of references, after checking that they have the expected type.
class Fields {
 public:
  explicit Fields(Graph& graph) : graph_(graph) {}

  const Object& object(const Ref& ref, std::string_view type) const {
    const auto* object = graph_.find<Object>(ref);
    if (object == nullptr || object->type->name != type) wrong(ref, std::string(type));
    return *object;
  }
  const Container& dict(const Ref& ref, const char* what) const {
    const auto* dict = graph_.find<Container>(ref);
    if (dict == nullptr || !dict->is_dict()) wrong(ref, what);
    return *dict;
  }
  const pickle::Refs& list(const Ref& ref, const char* what) const {
    const auto* list = graph_.find<Container>(ref);
    if (list == nullptr || list->is_dict() || list->is_set()) wrong(ref, what);
    return list->items;
  }
  std::string_view text(const Ref& ref, const char* what) const {
    const auto* text = graph_.find<pickle::Text>(ref);
    if (text == nullptr) wrong(ref, what);
    // Each reference to a long text costs time again, so each reference is charged.
    if (text->text.size() > kUsualName) graph_.charge(text->text.size() / sizeof(Ref));
    return text->text;
  }
  std::uint64_t count(const Ref& ref, const char* what) const {
    const auto number = graph_.integer(ref);
    if (!number || *number < 0) wrong(ref, what);
    return static_cast<std::uint64_t>(*number);
  }
  // Returns a torch.Size. The heap memory of the copy is charged, because one object may be copied
  // many times.
  Dims dims(const Ref& ref, const char* what) const {
    const auto* value = graph_.find<Value>(ref);
    const Size* size = value == nullptr ? nullptr : value->get_if<Size>();
    if (size == nullptr) wrong(ref, what);
    if (size->dims.size() > kMaxDims) fail("gives a tensor more than 64 dimensions");
    for (const std::int64_t dim : size->dims) {
      if (dim < 0) fail("has a negative number as " + std::string(what));
    }
    graph_.budget().take(pickle::bytes_beside(size->dims));
    return size->dims;
  }

  // Returns the fields of the root, whatever its class is called.
  Ref fields_of_root(const Ref& ref) const {
    const auto* foreign = graph_.find<Container>(ref);
    if (foreign == nullptr || foreign->kind != Container::Kind::kForeign) {
      return object(ref, "Metadata").state;
    }
    const Ref state = foreign->items.size() > pickle::kForeignState
                          ? foreign->items[pickle::kForeignState]
                          : Ref();
    if (find(state, kItems).is_none() || find(state, kLocations).is_none()) wrong(ref, "Metadata");
    return state;
  }

  // Returns the field of a dataclass; None if it is not there, because defaults are not written.
  Ref find(const Object& object, std::string_view field) const { return find(object.state, field); }
  Ref find(const Ref& fields, std::string_view field) const {
    const auto* state = graph_.find<Container>(fields);
    if (state == nullptr || !state->is_dict()) return None{};
    constexpr std::size_t kFree = 16;  // fields: PyTorch's classes have fewer
    for (std::size_t i = 0; i + 1 < state->items.size(); i += 2) {
      if (i >= 2 * kFree) graph_.charge(2);  // one object may be searched many times
      const auto* key = graph_.find<pickle::Text>(state->items[i]);
      if (key != nullptr && key->text == field) return state->items[i + 1];
    }
    return None{};
  }

  bool is_object(const Ref& ref, std::string_view type) const {
    const auto* object = graph_.find<Object>(ref);
    return object != nullptr && object->type->name == type;
  }
  const Graph& graph() const { return graph_; }

 private:
  [[noreturn]] void wrong(const Ref& ref, const std::string& expected) const {
    if (pickle::is_foreign(graph_, ref)) {
      throw UnsupportedError(
          "the metadata has " + graph_.describe(ref) + " in place of " + expected +
          "; load the folder in Python with the program that wrote it, and save " +
          "it with torch.distributed.checkpoint.save()");
    }
    fail("has " + graph_.describe(ref) + " in place of " + expected);
  }

  Graph& graph_;
};

class Parser {
 public:
  explicit Parser(Graph& graph) : fields_(graph), budget_(graph.budget()) {}

  void parse(const Ref& root, Metadata& metadata) {
    const Ref fields = fields_.fields_of_root(root);
    const Ref version = fields_.find(fields, "version");
    if (!version.is_none()) metadata.version = fields_.text(version, "version");
    read_locations(fields_.find(fields, kLocations));
    read_items(fields_.find(fields, kItems), metadata);
    read_paths(fields_.find(fields, "planner_data"), metadata);
  }

 private:
  void read_locations(const Ref& ref) {
    const auto& items = fields_.dict(ref, "the dict storage_data").items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const Object& index = fields_.object(items[i], "MetadataIndex");
      Key key{.fqn = fields_.text(fields_.find(index, "fqn"), "the name of an item"),
              .offset = std::nullopt};
      const Ref offset = fields_.find(index, "offset");
      if (!offset.is_none()) key.offset = fields_.dims(offset, "an offset");
      const std::string_view fqn = key.fqn;
      budget_.take(kLocationBytes);
      if (!locations_.emplace(std::move(key), location(items[i + 1])).second) {
        fail("stores a part of " + in_quotes(fqn) + " twice");
      }
    }
  }

  Location location(const Ref& ref) const {
    const Object& info = fields_.object(ref, "_StorageInfo");
    Location location{
        .file = fields_.text(fields_.find(info, "relative_path"), "the name of a file"),
        .offset = fields_.count(fields_.find(info, "offset"), "an offset in a file"),
        .size = fields_.count(fields_.find(info, "length"), "a length in a file")};
    if (!is_plain_name(location.file)) {
      fail("names the file " + in_quotes(location.file) + ", which is no plain name in the folder");
    }
    checked_add(location.offset, location.size);
    const Ref transforms = fields_.find(info, "transform_descriptors");
    if (transforms.is_none()) return location;
    for (const Ref& transform : fields_.list(transforms, "a list of transforms")) {
      budget_.take(2 * sizeof(std::string_view));
      location.transforms.push_back(fields_.text(transform, "the name of a transform"));
    }
    return location;
  }

  // Charges for the copy: many chunks may be stored at one place.
  Location copy_of(const Location& location) const {
    budget_.take(MemoryBudget::allocation(location.transforms.size() * sizeof(std::string_view)));
    return location;
  }

  void read_items(const Ref& ref, Metadata& metadata) {
    const auto& items = fields_.dict(ref, "the dict state_dict_metadata").items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const std::string_view fqn = fields_.text(items[i], "the name of an item");
      budget_.take(kItemBytes);
      if (!by_name_.emplace(fqn, metadata.items.size()).second) {
        fail("lists " + in_quotes(fqn) + " twice");
      }
      try {
        metadata.items.push_back(item(fqn, items[i + 1]));
      } catch (Error& e) {
        e.add_context(in_quotes(fqn));
        throw;
      }
    }
  }

  Item item(std::string_view fqn, const Ref& ref) const {
    if (!fields_.is_object(ref, "BytesStorageMetadata")) return tensor(fqn, ref);
    const auto found = locations_.find({fqn, std::nullopt});
    if (found == locations_.end()) fail("does not say where it is stored");
    return {.fqn = fqn, .chunks = {{.location = copy_of(found->second)}}};
  }

  Item tensor(std::string_view fqn, const Ref& ref) const {
    const Object& tensor = fields_.object(ref, "TensorStorageMetadata");
    Item item{.fqn = fqn,
              .dtype = dtype(fields_.find(tensor, "properties")),
              .size = fields_.dims(fields_.find(tensor, "size"), "the size of a tensor")};
    tensor_bytes(item);  // throws if the size overflows
    for (const Ref& chunk : fields_.list(fields_.find(tensor, "chunks"), "the list of chunks")) {
      add_chunk(fields_.object(chunk, "ChunkStorageMetadata"), item);
    }
    return item;
  }

  // Takes the dtype from (dtype, layout, requires_grad, memory format, pin_memory).
  DType dtype(const Ref& properties) const {
    const Object& object = fields_.object(properties, "TensorProperties");
    const auto& state = fields_.list(object.state, "the state of TensorProperties");
    const auto* value = state.empty() ? nullptr : fields_.graph().find<Value>(state[0]);
    const DType* dtype = value == nullptr ? nullptr : value->get_if<DType>();
    if (dtype == nullptr) fail("does not say of which dtype the tensor is");
    return *dtype;
  }

  void add_chunk(const Object& object, Item& item) const {
    budget_.take(kChunkBytes);
    Chunk chunk{.box = {fields_.dims(fields_.find(object, "offsets"), "the offsets of a chunk"),
                        fields_.dims(fields_.find(object, "sizes"), "the sizes of a chunk")}};
    check_inside(chunk.box, item.size);
    const auto found = locations_.find({item.fqn, chunk.box.offsets});
    const std::uint64_t bytes = box_bytes(chunk.box, *item.dtype);
    if (found == locations_.end()) {
      if (bytes == 0) return;
      fail("does not say where the chunk at " + describe(chunk.box.offsets) + " is stored");
    }
    chunk.location = copy_of(found->second);
    if (chunk.location.transforms.empty() && chunk.location.size < bytes) {
      fail("gives " + std::to_string(chunk.location.size) + " bytes to a chunk of " +
           std::to_string(bytes));
    }
    item.chunks.push_back(std::move(chunk));
  }

  void read_paths(const Ref& ref, Metadata& metadata) const {
    if (ref.is_none()) return;
    const auto& items = fields_.dict(ref, "the dict planner_data").items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto found = by_name_.find(fields_.text(items[i], "the name of an item"));
      if (found == by_name_.end()) continue;
      metadata.items[found->second].path = path(items[i + 1]);
    }
  }

  std::vector<PathPart> path(const Ref& ref) const {
    const auto& parts = fields_.list(ref, "the path of an item");
    if (parts.empty() || parts.size() > kMaxPath) {
      fail("has a path of " + std::to_string(parts.size()) + " levels");
    }
    std::vector<PathPart> path;
    budget_.take(MemoryBudget::allocation(parts.size() * sizeof(PathPart)));
    path.reserve(parts.size());
    for (const Ref& part : parts) {
      if (fields_.graph().integer(part)) {
        path.emplace_back(static_cast<std::int64_t>(fields_.count(part, "an index in a path")));
      } else {
        path.emplace_back(fields_.text(part, "a part of a path"));
      }
    }
    return path;
  }

  static bool is_plain_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
  }

  // The bytes charged for an entry, with its table (a vector that grows has two copies).
  // For an item, also what reading it will make.
  static constexpr std::uint64_t kLocationBytes = 2 * sizeof(Locations::value_type);
  static constexpr std::uint64_t kChunkBytes = 3 * sizeof(Chunk);
  static constexpr std::uint64_t kItemBytes = 4 * sizeof(Item);

  Fields fields_;
  MemoryBudget& budget_;
  Locations locations_;
  std::unordered_map<std::string_view, std::size_t, TextHash> by_name_;  // into Metadata::items
};

}  // namespace

Metadata parse_metadata(SharedBytes pickle) {
  MemoryBudget budget(pickle.view.size());
  Graph graph(budget);
  NoStorages no_storages;
  const Ref root = pickle::Machine(pickle.view, graph, no_storages, metadata_classes()).run();
  Metadata metadata;
  Parser(graph).parse(root, metadata);
  metadata.files.push_back(std::move(pickle));
  return metadata;
}

Metadata merge_metadata(std::vector<Metadata> ranks) {
  Metadata merged;
  std::unordered_map<std::string_view, std::size_t, TextHash> by_name;
  for (Metadata& rank : ranks) {
    if (merged.version.empty()) merged.version = rank.version;
    merged.files.insert(merged.files.end(), rank.files.begin(), rank.files.end());
    for (Item& item : rank.items) {
      const auto [known, is_new] = by_name.emplace(item.fqn, merged.items.size());
      if (is_new) {
        merged.items.push_back(std::move(item));
        continue;
      }
      Item& first = merged.items[known->second];
      if (first.dtype != item.dtype || first.size != item.size) {
        fail("of two ranks describe " + in_quotes(item.fqn) + " differently");
      }
      if (!first.dtype) continue;
      first.chunks.insert(first.chunks.end(), std::make_move_iterator(item.chunks.begin()),
                          std::make_move_iterator(item.chunks.end()));
    }
  }
  return merged;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kShown = 200;
  return "\"" + std::string(name.substr(0, kShown)) + "\"";
}

}  // namespace cairn::dcp

// Trees that a caller makes, and what a caller is told about a tree.
#include "c/tree.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "c/error.h"
#include "checkpoint/open/training_info.h"
#include "core/checked.h"
#include "core/text/printable.h"
#include "format/pickle/read/keyed_storages.h"
#include "format/pickle/read/unpickle.h"

namespace cairn {
namespace {

// A storage in the caller's memory, which needs no owner.
std::shared_ptr<const Storage> storage_in(const void* data, std::uint64_t size,
                                          std::string location = "cpu") {
  static const auto kNoOwner = std::make_shared<char>();
  return storage_of(SharedBytes{{static_cast<const std::byte*>(data), size}, kNoOwner},
                    std::move(location));
}

class GivenStorages final : public pickle::KeyedStorages {
 public:
  explicit GivenStorages(std::span<const cairn_bytes> storages) : storages_(storages) {}

 private:
  std::shared_ptr<const Storage> make(const pickle::StorageReference& reference) override {
    const std::string_view key = reference.key;
    std::size_t index = 0;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), index);
    const bool is_index = problem == std::errc() && end == key.data() + key.size();
    if (!is_index || index >= storages_.size()) {
      throw UsageError("the pickle names the storage \"" + std::string(key) + "\", but " +
                       std::to_string(storages_.size()) + " storages are given");
    }
    const cairn_bytes& given = storages_[index];
    if (given.size != byte_size(reference)) {
      throw UsageError("storage " + std::to_string(index) + " has " + std::to_string(given.size) +
                       " bytes, but the pickle says " + std::to_string(byte_size(reference)));
    }
    if (given.size > 0) require(given.data, "the data of a storage");
    return storage_in(given.data, given.size, std::string(reference.location));
  }

  std::span<const cairn_bytes> storages_;
};

// The elements from the first to the last that the strides reach.
std::uint64_t reached_elements(const TensorView& tensor) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.strides[i] < 0) throw UsageError("a stride is negative");
    if (tensor.shape[i] == 0) return 0;
    last = checked_add(
        last, checked_multiply<std::uint64_t>(static_cast<std::uint64_t>(tensor.shape[i] - 1),
                                              static_cast<std::uint64_t>(tensor.strides[i])));
  }
  return last + 1;
}

TensorView view_of(const cairn_tensor& given) {
  const auto dtype = find_dtype(given.dtype);
  if (!dtype) throw UsageError(std::string("there is no dtype \"") + given.dtype + "\"");
  TensorView tensor{.dtype = *dtype};
  if (given.dimensions < 0) throw UsageError("the number of dimensions is negative");
  if (given.dimensions > 0) {
    require(given.shape, "shape");
    tensor.shape.assign(given.shape, given.shape + given.dimensions);
  }
  if (std::ranges::any_of(tensor.shape, [](std::int64_t size) { return size < 0; })) {
    throw UsageError("a shape is negative");
  }
  tensor.numel();  // throws if it overflows, as the strides would then
  tensor.strides = given.strides == nullptr
                       ? contiguous_strides(tensor.shape)
                       : Dims(given.strides, given.strides + tensor.shape.size());
  const std::uint64_t elements = reached_elements(tensor);
  const std::uint64_t packed = elements_per_byte(*dtype);
  const auto bytes =
      checked_multiply<std::uint64_t>((elements + packed - 1) / packed, item_size(*dtype));
  if (bytes > 0) require(given.data, "data");
  tensor.storage = storage_in(given.data, bytes);
  return tensor;
}

// Classes of Python that are only data, and that cairn keeps as they are.
constexpr std::array<std::string_view, 6> kPlainClasses = {
    "datetime.datetime", "datetime.date", "datetime.time",
    "datetime.timezone", "numpy.dtype",   "torch.storage.UntypedStorage"};

bool is_plain(const Foreign& object) {
  return object.made == Foreign::Made::kStorage || object.made == Foreign::Made::kBackReference ||
         std::ranges::find(kPlainClasses, object.class_name()) != kPlainClasses.end();
}

std::string refusal(const std::string& path, const Foreign& object) {
  const std::string where = path.empty() ? "the object" : path;
  if (object.made == Foreign::Made::kNamed) {
    return where + " is the class or function " + object.class_name() +
           " itself, of which a file keeps only the name; list a class in allow=, leave out a "
           "function";
  }
  return where + " is of the class " + object.class_name() +
         ", which may run code of its own when Python loads it; list the class in allow=, or save "
         "a plain dict of its content instead";
}

// Fills tree.tensors; `storages` are read or null.
void list_tensors(cairn_tree& tree) {
  if (!tree.tensors.empty()) return;
  std::unordered_map<const Storage*, std::byte*> places;
  for (std::size_t i = 0; i < tree.storages.size(); ++i) {
    places.emplace(tree.encoded->storages[i].get(), static_cast<std::byte*>(tree.storages[i].data));
  }
  for (auto& [path, tensor] : tensors_of(tree.value)) {
    std::byte* const place = places[tensor->storage.get()];
    const auto offset = static_cast<std::uint64_t>(tensor->storage_offset) *
                        item_size(tensor->dtype) / elements_per_byte(tensor->dtype);
    tree.tensors.push_back({.name = tree.names.emplace_back(std::move(path)).c_str(),
                            .dtype = name(tensor->dtype).data(),
                            .dimensions = static_cast<std::int64_t>(tensor->shape.size()),
                            .shape = tensor->shape.data(),
                            .strides = tensor->strides.data(),
                            .data = place == nullptr ? nullptr : place + offset});
  }
}

}  // namespace

std::unique_ptr<cairn_tree> tree_of(const Checkpoint& checkpoint, Verify verify) {
  auto tree = std::make_unique<cairn_tree>();
  tree->value = load(checkpoint, {.verify = Verify::kQuick});
  tree->checkpoint = checkpoint;
  tree->verify = verify;
  return tree;
}

CheckpointInfo info_of(const Value& value) { return training_info(SourceInfo{}, value); }

void encode_tree(cairn_tree& tree) {
  if (tree.encoded) return;
  pickle::Encoded encoded = pickle::encode(tree.value);
  for (const std::shared_ptr<const Storage>& storage : encoded.storages) {
    const auto bytes = tree.checkpoint ? std::nullopt : storage->try_view();
    // The caller's own memory, which the caller may write to.
    auto* const data = bytes ? const_cast<std::byte*>(bytes->view.data()) : nullptr;
    tree.storages.push_back({data, storage->size()});
  }
  tree.encoded = std::move(encoded);
}

}  // namespace cairn

cairn_status cairn_tree_from_pickle(cairn_bytes pickle, const cairn_bytes* storages, size_t count,
                                    cairn_tree** tree, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    *tree = nullptr;
    cairn::require(pickle.data, "pickle.data");
    if (count > 0) cairn::require(storages, "storages");
    cairn::GivenStorages given({storages, count});
    auto made = std::make_unique<cairn_tree>();
    made->value =
        cairn::pickle::unpickle({static_cast<const std::byte*>(pickle.data), pickle.size}, given);
    *tree = made.release();
  });
}

cairn_status cairn_tree_from_tensors(const cairn_tensor* tensors, size_t count, cairn_tree** tree,
                                     cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    *tree = nullptr;
    if (count > 0) cairn::require(tensors, "tensors");
    cairn::Dict dict;
    for (const cairn_tensor& tensor : std::span(tensors, count)) {
      cairn::require(tensor.name, "the name of a tensor");
      cairn::require(tensor.dtype, "the dtype of a tensor");
      if (dict.find(tensor.name) != nullptr) {
        throw cairn::UsageError(std::string("two tensors have the name ") + tensor.name);
      }
      try {
        dict.set(tensor.name, cairn::view_of(tensor));
      } catch (const cairn::CorruptError&) {
        throw cairn::UsageError(std::string(tensor.name) + ": the sizes overflow");
      } catch (cairn::Error& e) {
        e.add_context(tensor.name);
        throw;
      }
    }
    auto made = std::make_unique<cairn_tree>();
    made->value = std::move(dict);
    *tree = made.release();
  });
}

void cairn_tree_free(cairn_tree* tree) { delete tree; }

cairn_status cairn_tree_check_classes(const cairn_tree* tree, const char* const* allowed,
                                      size_t count, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    if (count > 0) cairn::require(allowed, "allowed");
    std::set<std::string_view> names;
    for (const char* name : std::span(allowed, count)) {
      cairn::require(name, "the name of a class");
      names.insert(name);
    }
    for (const auto& [path, object] : cairn::foreign_objects(tree->value)) {
      if (cairn::is_plain(*object) || names.contains(object->class_name())) continue;
      throw cairn::UnsupportedError(cairn::refusal(path, *object));
    }
  });
}

cairn_status cairn_tree_lost_attributes(const cairn_tree* tree, char** lines, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    cairn::require(lines, "lines");
    *lines = nullptr;
    std::string text;
    for (const auto& [path, tensor] : cairn::tensors_of(tree->value)) {
      if (tensor->lost_attributes == nullptr) continue;
      if (!text.empty()) text += '\n';
      text += cairn::printable_line(path + ": " + *tensor->lost_attributes);
    }
    if (!text.empty()) *lines = cairn::text_copy(text);
  });
}

cairn_status cairn_tree_pickle(cairn_tree* tree, cairn_bytes* pickle, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    cairn::require(pickle, "pickle");
    cairn::encode_tree(*tree);
    std::string& text = tree->encoded->data_pkl;
    *pickle = {text.data(), text.size()};
  });
}

cairn_status cairn_tree_storages(cairn_tree* tree, const cairn_bytes** storages, size_t* count,
                                 cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    cairn::require(storages, "storages");
    cairn::require(count, "count");
    cairn::encode_tree(*tree);
    *storages = tree->storages.data();
    *count = tree->storages.size();
  });
}

cairn_status cairn_tree_tensors(cairn_tree* tree, const cairn_tensor** tensors, size_t* count,
                                cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    cairn::require(tensors, "tensors");
    cairn::require(count, "count");
    cairn::encode_tree(*tree);
    cairn::list_tensors(*tree);
    *tensors = tree->tensors.data();
    *count = tree->tensors.size();
  });
}

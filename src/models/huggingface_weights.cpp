#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "cairn/error.h"
#include "cairn/models/huggingface.h"

#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/plan/write_safetensors.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "models/name_map.h"
#include "storage/listing.h"
#include "storage/local/own_files.h"
#include "storage/place.h"
#include "storage/publish/replace.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

constexpr const char* kConfigName = "config.json";
constexpr const char* kSingleFile = "model.safetensors";

// Transposes a matrix. Other tensors stay, and fail as mis-shaped ones if they do not fit.
TensorView transposed(TensorView view) {
  if (view.shape.size() != 2) return view;
  std::swap(view.shape[0], view.shape[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

// Gives the other names of a tied tensor of the module the value that one of its names has.
void add_tied_names(const torch::nn::Module& module, Dict& state) {
  std::map<const c10::TensorImpl*, Value> known;
  for_each_named_tensor(
      module, [&](const std::string& prefix, const std::string& name, const at::Tensor& tensor) {
        if (const Value* value = state.find(prefix + name))
          known.emplace(tensor.unsafeGetTensorImpl(), *value);
      });
  for_each_named_tensor(
      module, [&](const std::string& prefix, const std::string& name, const at::Tensor& tensor) {
        const auto value = known.find(tensor.unsafeGetTensorImpl());
        if (value != known.end() && state.find(prefix + name) == nullptr)
          state.set(prefix + name, value->second);
      });
}

// The state dict of a file by the module's names.
Value renamed(const HuggingFaceOptions& options, const torch::nn::Module& module,
              const Value& of_file) {
  if (!of_file.is_dict()) return of_file;
  Dict state = Dict::ordered();
  std::map<std::string, std::string> names_of;  // In the file, by those in the module.
  for (const auto& [key, value] : of_file.as_dict()) {
    if (!key.is_str() || !value.is_tensor()) {
      state.set(key, value);
      continue;
    }
    const std::string& name = key.as_str();
    if (is_ignored(options, name)) continue;
    const MappedName mapped = name_in_module(options, name);
    const auto [other, is_new] = names_of.emplace(mapped.name, name);
    if (!is_new) {
      throw MismatchError(fmt::format("\"{}\" and \"{}\" of the file both are \"{}\" of the module",
                                      other->second, name, mapped.name));
    }
    state.set(mapped.name, mapped.is_transposed ? Value(transposed(value.as_tensor())) : value);
  }
  add_tied_names(module, state);
  return state;
}

// The module's tensors by the names of files. Tensors that share all elements are one, by the name
// that comes first in the module.
NamedTensors named_tensors(const HuggingFaceOptions& options, const torch::nn::Module& module) {
  using Elements = std::tuple<const Storage*, std::int64_t, Dims, Dims>;
  NamedTensors named;
  std::map<Elements, std::string> known;
  std::map<std::string, std::string> names_of;  // In the module, by those in the file.
  const Value state = state_dict(module);
  for (const auto& [key, value] : state.as_dict()) {
    const MappedName mapped = name_in_file(options, key.as_str());
    const auto [other, is_new] = names_of.emplace(mapped.name, key.as_str());
    if (!is_new) {
      throw UsageError(fmt::format("\"{}\" and \"{}\" of the module both get the name \"{}\"",
                                   other->second, key.as_str(), mapped.name));
    }
    const TensorView& view = value.as_tensor();
    const auto [first, is_first] = known.emplace(
        Elements(view.storage.get(), view.storage_offset, view.shape, view.strides), mapped.name);
    if (is_first) {
      named.tensors.emplace_back(mapped.name, mapped.is_transposed ? transposed(view) : view);
    } else {
      named.tied.emplace_back(mapped.name, first->second);
    }
  }
  return named;
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(HuggingFaceOptions options) : options_(std::move(options)) {
  for (const HuggingFaceName& rule : options_.names) {
    if (std::ranges::count(rule.file, '*') == std::ranges::count(rule.module, '*')) continue;
    throw UsageError(
        fmt::format("HuggingFaceWeights: \"{}\" and \"{}\" must have equally many \"*\"", rule.file,
                    rule.module));
  }
  if (options_.max_shard_size < 1) {
    throw UsageError(fmt::format("HuggingFaceWeights: max_shard_size is {}; give at least 1 byte",
                                 options_.max_shard_size));
  }
}

IncompatibleKeys HuggingFaceWeights::load(torch::nn::Module& module, const std::string& folder,
                                          LoadStateDictOptions options) const try {
  const Checkpoint checkpoint = open_checkpoint(folder, options_.store);
  return load_changed_state_dict(module, checkpoint, options, [&](const Value& of_file) {
    return renamed(options_, module, of_file);
  });
} catch (Error& e) {
  e.add_context("loading " + folder);
  throw;
}

std::string HuggingFaceWeights::config(const std::string& folder) const {
  const auto store = store_of(folder, options_.store);
  const SharedBytes bytes = read_all(*store->open(join_path(folder, kConfigName)));
  return {reinterpret_cast<const char*>(bytes.view.data()), bytes.view.size()};
}

std::vector<std::string> HuggingFaceWeights::save(const torch::nn::Module& module,
                                                  const std::string& folder,
                                                  const std::string& config) const {
  return save(module, folder, config, SaveOptions());
}

std::vector<std::string> HuggingFaceWeights::save(const torch::nn::Module& module,
                                                  const std::string& folder,
                                                  const std::string& config, SaveOptions how) const
    try {
  const auto store = store_of(folder, options_.store);
  if (!store->features().whole_folders) {
    throw UnsupportedError(
        "a folder of Transformers cannot be replaced as a whole in this store: save it to a folder "
        "of this machine, and copy that with `cairn copy`");
  }
  remove_leftovers_of(*store, folder);
  if (how.overwrite) check_only_own_files(*store, folder, {kConfigName, kSingleFile});
  ShardOptions shards{.shard_bytes = static_cast<std::uint64_t>(options_.max_shard_size),
                      .single_file = kSingleFile};
  if (!config.empty()) shards.texts.emplace_back(kConfigName, config);
  WrittenFiles written;
  SaveJob job{.path = folder, .replace = replace_if(how.overwrite)};
  job.write = [&](ObjectStore& to, const SaveJob& save, const auto&) {
    written = write_sharded_safetensors(to, save, named_tensors(options_, module), shards);
    return written.bytes;
  };
  save_now(store, job);
  return written.files;
} catch (Error& e) {
  e.add_context("saving " + folder);
  throw;
}

}  // namespace cairn

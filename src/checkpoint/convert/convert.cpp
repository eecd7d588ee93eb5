// Converting:
//
//  1. The target format is chosen. Nothing may exist at the output's path, unless overwriting is
//     allowed.
//  2. The input is opened and checked.
//  3. Its tree is read without its tensors and changed: selected, converted, renamed. Storages stay
//     where they are or become lazy. The trees of several ranks' files become one.
//  4. Everything that holds a tensor must fit into the target format.
//  5. The target's writer asks for one storage after the other.
//
// kTargets has one row per format that can be written.
#include "cairn/checkpoint/convert.h"

#include <algorithm>
#include <array>
#include <new>

#include "cairn/dtensor.h"
#include "cairn/error.h"
#include "cairn/foreign.h"

#include "checkpoint/convert/consolidate.h"
#include "checkpoint/convert/convert_dtype.h"
#include "checkpoint/convert/drop_foreign.h"
#include "checkpoint/convert/lost_objects.h"
#include "checkpoint/convert/select.h"
#include "checkpoint/open/formats/weights.h"
#include "checkpoint/open/source.h"
#include "checkpoint/open/verify/check_shown.h"
#include "checkpoint/open/verify/check_whole.h"
#include "checkpoint/plan/named_tensors.h"
#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/plan/write_dcp.h"
#include "checkpoint/plan/write_safetensors.h"
#include "core/existing.h"
#include "core/out_of_memory.h"
#include "io/durable/atomic_file.h"
#include "io/memory/mapped_file.h"
#include "storage/listing.h"
#include "storage/local/own_files.h"
#include "storage/object_folder.h"
#include "storage/place.h"

namespace cairn {
namespace {

struct Job {
  const std::shared_ptr<ObjectStore>& store;
  SaveJob save;  // the value of the save is final except for the renaming
  std::vector<Rename> rename;
  SafetensorsFile::Metadata metadata;  // kept if a safetensors file is written again
  const ConvertOptions& options;
};

struct Target {
  const char* name;
  // Whether this format is chosen for the name `out` if no format was given.
  bool (*fits)(const std::string& out, const ConvertOptions& options);
  void (*write)(Job job, ConvertResult& result);
  bool keeps_tree;  // DTensors stay, and a storage is written once, however many tensors show it
};

bool fits_safetensors(const std::string& out, const ConvertOptions& options) {
  return out.ends_with(".safetensors") || options.shard_bytes.value_or(0) > 0;
}

bool fits_dcp(const std::string& out, const ConvertOptions&) { return out.ends_with('/'); }

bool fits_anything(const std::string&, const ConvertOptions&) { return true; }

// Handles the objects with tensors that would be lost: drops them if ConvertOptions::drop_objects
// is set, else throws. Tensors are never lost silently.
void settle_lost(std::vector<LostObject> lost, const Job& job, ConvertResult& result) {
  if (lost.empty()) return;
  if (job.options.drop_objects) {
    for (LostObject& object : lost) {
      result.dropped.emplace_back(std::move(object.path), std::move(object.what));
    }
    return;
  }
  constexpr std::size_t kMaxNamed = 1000;
  std::string names;
  for (std::size_t i = 0; i < std::min(lost.size(), kMaxNamed); ++i) {
    names +=
        "\n  " + (lost[i].path.empty() ? "(the whole object)" : lost[i].path) + ": " + lost[i].what;
  }
  if (lost.size() > kMaxNamed) {
    names += "\n  and " + std::to_string(lost.size() - kMaxNamed) + " more";
  }
  std::string advice;
  if (std::ranges::any_of(lost, &LostObject::is_shard)) {
    advice += "\nGive the files of all ranks to put the shards of a DTensor together.";
  }
  if (!std::ranges::all_of(lost, &LostObject::is_shard)) {
    advice += "\nSave the state_dict() of a module, and a plain tensor in place of a subclass's.";
  }
  throw UnsupportedError(
      result.format +
      " cannot hold these objects, and without them their tensors would be lost:" + names + advice +
      "\nA .pt file holds objects as they are; --drop-objects (ConvertOptions::drop_objects) "
      "leaves them out");
}

void write_safetensors_target(Job job, ConvertResult& result) {
  NamedTensors named = name_tensors(job.save.value, job.rename);
  Storages kept;
  for (const auto& [name, tensor] : named.tensors) {
    kept.insert(tensor.storage.get());
  }
  settle_lost(lost_objects(job.save.value, kept), job, result);
  if (job.save.value.is_foreign()) {
    throw UnsupportedError("the whole object is one of " +
                           job.save.value.as_foreign().class_name() + ", and holds no tensor");
  }
  result.left_out = named.left_out;
  result.renamed_keys = named.renamed_keys;
  result.tied = named.tied;
  result.tensors = named.tensors.size();
  job.save.write = [&](ObjectStore& store, const SaveJob& save, const auto&) {
    const std::uint64_t shard_bytes = job.options.shard_bytes.value_or(0);
    WrittenFiles written =
        shard_bytes == 0
            ? write_safetensors(store, save, named, job.metadata)
            : write_sharded_safetensors(store, save, std::move(named),
                                        {.shard_bytes = shard_bytes, .metadata = job.metadata});
    result.files = std::move(written.files);
    return written.bytes;
  };
  result.bytes = save_now(job.store, job.save).bytes;
}

// Writes a format that holds the whole tree.
void write_tree(Job job, ConvertResult& result) {
  if (job.options.shard_bytes.value_or(0) > 0)
    throw UsageError("only safetensors are written in shards");
  job.save.value = rename_tensors(job.save.value, job.rename);
  result.tensors = tensors_of(job.save.value).size();
  result.objects = foreign_classes(job.save.value);
  result.bytes = save_now(job.store, job.save).bytes;
  result.files = {job.save.path};
}

void write_dcp_target(Job job, ConvertResult& result) {
  settle_lost(lost_objects(job.save.value, storages_of_leaves(job.save.value)), job, result);
  job.save.write = [scratch = job.options.scratch_folder.value_or("")](
                       ObjectStore& store, const SaveJob& save, const auto&) {
    return write_dcp(store, save, scratch);
  };
  write_tree(std::move(job), result);
}

constexpr std::array kTargets = {
    Target{"safetensors", fits_safetensors, write_safetensors_target, /*keeps_tree=*/false},
    Target{"dcp", fits_dcp, write_dcp_target, /*keeps_tree=*/false},
    // This row is the last, because it fits every name.
    Target{"torch", fits_anything, write_tree, /*keeps_tree=*/true},
};

const Target& target_of(const std::string& out, const ConvertOptions& options) {
  const auto* found = std::find_if(kTargets.begin(), kTargets.end(), [&](const Target& target) {
    return options.to.empty() ? target.fits(out, options) : options.to == target.name;
  });
  if (found != kTargets.end()) return *found;
  std::string names;
  for (const Target& target : kTargets) {
    names += (names.empty() ? "" : ", ") + std::string(target.name);
  }
  throw UsageError("cannot convert to the format \"" + options.to + "\"; expected one of " + names);
}

// A writer that writes a folder object by object can replace what a killed or failed writer left.
FolderState state_of_target(ObjectStore& store, const std::string& out, const ObjectInfo& there) {
  const bool is_of_objects =
      there.type == ObjectInfo::Type::kFolder && !store.features().whole_folders;
  return is_of_objects ? state_of_folder(store, out) : FolderState::kOther;
}

// Replaces only checkpoints, so that a mistyped name destroys no other folder and no file beside a
// checkpoint.
void check_target_place(const std::shared_ptr<ObjectStore>& store, const std::string& out,
                        const ConvertOptions& options) {
  const auto there = store->stat(out);
  if (!there) return;
  const FolderState state = state_of_target(*store, out, *there);
  if (state == FolderState::kLeftBehind) return;
  if (!options.overwrite) {
    refuse_existing(out);
  }
  if (state == FolderState::kMarked) return;
  if (there->type != ObjectInfo::Type::kFolder) return;
  open_source(out, {.store = store});
  check_only_own_files(*store, out);
}

std::string without_slashes(std::string path) {
  while (path.ends_with('/'))
    path.pop_back();
  return path;
}

// Returns `place` without its secrets. The store of `place` accepts this form, too.
std::string shown_name(const std::string& place, const ConvertOptions& options) {
  return options.store ? place : shown_place(place);
}

// Throws UsageError if `out` would overwrite `in`: a folder of objects is replaced object by object
// while `in` is still being read.
void check_apart(const std::string& in, const std::shared_ptr<ObjectStore>& store,
                 const std::string& out, const ConvertOptions& options) {
  // is_folder() comes first, because a bucket may have to begin an upload to find out its features.
  if (!is_folder(*store, out) || store->features().whole_folders) return;
  const auto pointer = store_of(in, options.store)->read_pointer(in);
  const std::string source =
      shown_name(pointer && !pointer->is_broken() ? pointer->target : in, options);
  const std::string from = without_slashes(normal_path(source));
  const std::string to = without_slashes(normal_path(out));
  if (from != to && !from.starts_with(to + "/")) return;
  throw UsageError("cannot convert " + shown_name(in, options) + " into " + out +
                   ": the store replaces a folder object by object, while it is still read; " +
                   "choose another name");
}

std::unique_ptr<CheckpointSource> open_checked(const std::string& in,
                                               const ConvertOptions& options) {
  // The size of a folder is not known beforehand, so `total` is 0 for a folder.
  const auto store = store_of(in, options.store);
  const auto there = store->stat(in);
  const bool is_file = there && there->type == ObjectInfo::Type::kObject;
  const std::uint64_t total = is_file ? there->size : 0;
  OpenOptions opening{.store = store,
                      .scratch_folder = options.scratch_folder.value_or(""),
                      .access = options.raw ? Access::kRaw : Access::kVerified};
  if (options.on_progress) {
    opening.on_progress = [total, report = options.on_progress](std::uint64_t more) {
      report("checking", more, total);
    };
  }
  const std::string path = shown_name(in, options);
  auto source = open_source(path, opening);
  if (!options.raw) check_whole(source->verify(options.verify), path);
  return source;
}

// `weights` are the ones that the code of a TorchScript archive names; `root` is everything in the
// archive. Throws UsageError if there are no weights.
Value script_model(Value weights, const Value& root, const std::string& in) {
  const bool is_optimizer = root.is_dict() && root.find("pytorch_version") != nullptr &&
                            root.find("param_groups") != nullptr;
  if (is_optimizer) {
    throw UsageError(in + " holds the state of a C++ optimizer, and no weights; convert it whole");
  }
  if (!weights.as_dict().empty()) return weights;
  throw UsageError(in +
                   ": the module has no parameters and no buffers, as after torch.jit.freeze; "
                   "convert it whole, which keeps the constants of its code, too");
}

Value model_of(const Value& root, const std::string& in) {
  const Value& model = weights_of(root);
  if (model.is_foreign()) {
    throw UnsupportedError(in + ": the weights are an object of " +
                           model.as_foreign().class_name() +
                           ", which only its Python class can read; save its state_dict() there");
  }
  const bool is_flat =
      model.is_dict() && !model.as_dict().empty() &&
      std::all_of(model.as_dict().begin(), model.as_dict().end(), [](const auto& entry) {
        return entry.second.is_tensor() || local_tensor(entry.second) != nullptr;
      });
  if (is_flat || &model != &root) return model;
  throw UsageError("weights_only: " + in +
                   " has no weights at state/model, model, state_dict or module, and is no flat "
                   "state dict; convert the whole file, or only the part that holds the weights "
                   "(include)");
}

// Leaves out foreign objects if ConvertOptions::drop_objects is set.
Value drop_foreign_if_asked(Value value, const ConvertOptions& options, ConvertResult& result) {
  if (!options.drop_objects) return value;
  WithoutForeign rest = drop_foreign(value);
  result.dropped = std::move(rest.dropped);
  return std::move(rest.value);
}

std::function<void(std::uint64_t, std::uint64_t)> writing_progress(const ConvertOptions& options) {
  if (!options.on_progress) return nullptr;
  return [report = options.on_progress](std::uint64_t more, std::uint64_t total) {
    report("writing", more, total);
  };
}

// One of the files to convert, and the part of it that is converted.
struct Input {
  SourceInfo info;
  Value value;
};

Input read_input(const std::string& in, const Target& target, const ConvertOptions& options) {
  const auto source = open_checked(in, options);
  Input input{.info = source->info(), .value = source->read()};
  if (options.weights_only) {
    std::optional<Value> weights = source->state_dict();
    input.value = weights ? script_model(std::move(*weights), input.value, shown_name(in, options))
                          : model_of(input.value, shown_name(in, options));
  }
  input.value = select(input.value, {.include = options.include, .exclude = options.exclude});
  if (!target.keeps_tree) {
    check_shown(input.value, *source, shown_name(in, options), options.most_repetition);
  }
  return input;
}

// Reads all files into one value. `info` becomes the SourceInfo of the first file.
Value read_all(const std::vector<std::string>& files, const Target& target,
               const ConvertOptions& options, ConvertResult& result, SourceInfo& info) {
  std::vector<RankFile> ranks;
  for (const std::string& file : files) {
    Input input = read_input(file, target, options);
    if (ranks.empty()) info = std::move(input.info);
    ranks.push_back({.name = shown_name(file, options), .value = std::move(input.value)});
  }
  if (ranks.size() == 1 && target.keeps_tree) return std::move(ranks.front().value);
  Consolidated all = consolidate(ranks, options.scratch_folder.value_or(""));
  result.gathered = all.gathered;
  result.differing = std::move(all.differing);
  return std::move(all.value);
}

Value changed(Value value, const ConvertOptions& options, ConvertResult& result) {
  value = drop_foreign_if_asked(std::move(value), options, result);
  result.lost_attributes = lost_attributes(value);
  if (options.dtype)
    value = convert_dtype(value, *options.dtype, options.scratch_folder.value_or(""));
  return value;
}

}  // namespace

ConvertResult convert(const std::string& in, const std::string& out,
                      const ConvertOptions& options) try {
  return convert_ranks({in}, out, options);
} catch (const std::bad_alloc&) {
  throw_out_of_memory("converting a checkpoint");
}

ConvertResult convert_ranks(const std::vector<std::string>& files, const std::string& out,
                            const ConvertOptions& options) try {
  if (files.empty()) throw UsageError("no file to convert");
  const GuardedReads guard;  // SaveJob::checks_reads relies on this guard
  const auto store = store_of(out, options.store);
  const Target& target = target_of(out, options);
  const std::string place = shown_name(out, options);
  check_target_place(store, place, options);
  for (const std::string& file : files) {
    check_apart(file, store, place, options);
  }
  ConvertResult result;
  result.format = target.name;
  SourceInfo info;
  Value value = read_all(files, target, options, result, info);
  Job job{.store = store,
          .save = {.value = changed(std::move(value), options, result),
                   .path = place,
                   .replace = replace_if(options.overwrite),
                   .checks_reads = true,
                   .on_progress = writing_progress(options)},
          .rename = {},
          .metadata = {},
          .options = options};
  const bool is_whole = files.size() == 1 && !options.weights_only && options.include.empty() &&
                        options.exclude.empty();
  if (is_whole && info.checkpoint) job.save.info = *info.checkpoint;
  if (is_whole && options.rename.empty() && info.format == "safetensors") {
    job.metadata = info.notes;
  }
  for (const auto& [from, to] : options.rename) {
    job.rename.push_back({from, to});
  }
  remove_leftovers_of(*store, place);
  try {
    target.write(std::move(job), result);
  } catch (Error& e) {
    e.add_context("converting " + shown_name(files.front(), options));
    throw;
  }
  return result;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("converting a checkpoint");
}

}  // namespace cairn

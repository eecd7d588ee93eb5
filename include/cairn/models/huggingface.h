// Weights of Hugging Face's libraries in a module of your own (Composer's HuggingFaceModel trains
// their Python modules; here only the weights are theirs).
//
//   const cairn::HuggingFaceWeights gpt2({
//       .names = {{"transformer.wte.weight", "tokens.weight"},
//                 {"transformer.h.*.attn.c_attn.weight", "layers.*.qkv.weight", true}},
//       .base_model_prefix = "transformer",
//       .ignored = {"transformer.h.*.attn.bias"}});
//   gpt2.load(*net, "gpt2");
//   gpt2.save(*net, "my-gpt2", gpt2.config("gpt2"));  // from_pretrained("my-gpt2") loads it
//
// docs/huggingface.md is a guide.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/state_dict.h"

namespace CAIRN_PUBLIC cairn {

// A tensor's name in Hugging Face's files, and in the module. "*" stands for any text without a
// dot: the same text in both, the first for the first. Both have equally many.
struct HuggingFaceName {
  std::string file = {};
  std::string module = {};
  // Whether the file has the matrix transposed, as GPT-2's has those of its Conv1D.
  bool is_transposed = false;
};

struct HuggingFaceOptions {
  // The first one that fits a name counts. A name that none fits is the same in both.
  std::vector<HuggingFaceName> names = {};
  // The attribute of that name of Transformers' class: "transformer" for GPT-2. The files of the
  // class without a head lack it at the beginning of names. load() takes both; save() writes the
  // names that `names` has.
  std::string base_model_prefix = {};
  // Names in the files that the module has no use for, with "*": constants that are kept as
  // weights.
  std::vector<std::string> ignored = {};
  // The most bytes of tensors in one file that save() writes: Transformers' default, "5GB".
  std::int64_t max_shard_size = 5'000'000'000;
  std::shared_ptr<ObjectStore> store = nullptr;  // the store of the path; local_store() when null
};

// Immutable, so safe to use from several threads.
class HuggingFaceWeights {
 public:
  // Throws UsageError for a name without its counterpart's "*", and for a max_shard_size below 1.
  explicit HuggingFaceWeights(HuggingFaceOptions options = {});
  explicit HuggingFaceWeights(EmptyBraces)  // HuggingFaceWeights({})
      : HuggingFaceWeights(HuggingFaceOptions()) {}

  // Loads a folder with model.safetensors, with model.safetensors.index.json and its shards, or
  // with pytorch_model.bin (or its index), or one such file: all of the module's tensors, or, after
  // any error, none. Floats are converted to the module's dtype. A tied tensor of the module may
  // have any of its names. Each byte is read once. Bytes with checksums are verified before
  // anything is changed. Returns the names that were skipped if not strict. Call it before
  // fully_shard().
  //
  // Throws MismatchError, which lists missing names (of the module), unexpected ones (of the file
  // if no rule fits them, otherwise of the module) and shapes that differ; what load() throws.
  IncompatibleKeys load(torch::nn::Module& module, const std::string& folder,
                        LoadStateDictOptions options = {}) const;

  // The text of config.json in the folder. Throws NotFoundError.
  std::string config(const std::string& folder) const;

  struct SaveOptions {
    // If true, a folder that holds only such files may be replaced.
    bool overwrite = false;
  };
  // Writes the module's tensors as a folder, whole or not at all: model.safetensors, or shards and
  // their index if they are larger than max_shard_size, and `config` as config.json (empty: none).
  // Tied tensors are written once, by the first of their names: a module's own parameters come
  // before those of its children. Returns the paths of the files. In a job of several processes
  // call it on rank 0; a sharded module has only this rank's rows, so load a checkpoint into a
  // whole one first.
  //
  // Throws AlreadyExistsError; UsageError if two tensors get one name, or for a folder with other
  // files; UnsupportedError for a dtype that safetensors do not have, and for a store without
  // features().whole_folders, such as a bucket (`cairn copy` takes the folder there); StorageError.
  std::vector<std::string> save(const torch::nn::Module& module, const std::string& folder,
                                const std::string& config = {}) const;
  std::vector<std::string> save(const torch::nn::Module& module, const std::string& folder,
                                const std::string& config, SaveOptions how) const;

 private:
  HuggingFaceOptions options_;
};

}  // namespace cairn

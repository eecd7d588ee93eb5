// Turning one kind of checkpoint into another, without PyTorch.
//
//   convert("ep3.pt", "model.safetensors", {.weights_only = true, .dtype = DType::kBFloat16});
//
// Everything streams: memory does not grow with the checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/tensor.h"

namespace cairn {

struct ConvertOptions {
  // "torch" (torch.save, in the container that the extension names), "safetensors", "dcp" (a new
  // folder of torch.distributed.checkpoint). When empty, the end of `out` decides: ".safetensors",
  // "/" for dcp, or else torch.save.
  std::string to = {};

  // Only the model's state dict: `state/model` of a Composer checkpoint, or `model`, `state_dict`
  // or `module` of others, the first that holds a tensor. A file that is a flat state dict already
  // stays as it is. Of a TorchScript archive: what its state_dict() has in Python. UsageError when
  // there is none.
  bool weights_only = false;
  // Patterns over paths ("state/model/*"; `*` crosses "/"), with all that is in what they match.
  // They are applied to what weights_only leaves.
  std::vector<std::string> include = {};
  std::vector<std::string> exclude = {};
  // Names of tensors that begin with `first` begin with `second` instead; the first that fits
  // counts. In safetensors a name is all keys joined by ".", in torch.save the last key. UsageError
  // when no name begins with `first`.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // Floating-point tensors become float16, bfloat16 or float32: rounded to the nearest, ties to
  // even. 8-bit floats, integers and complex numbers stay.
  std::optional<DType> dtype = std::nullopt;

  // Objects of classes that cairn does not know (cairn/foreign.h) are written again as they were,
  // where the format can hold them. Python runs the code of their classes when it loads the result,
  // as it did before. If true, they are left out: entries of dicts go, items of lists become None,
  // and a defaultdict keeps its factory only if that is one of Python's own types. If false, an
  // object that holds tensors is an UnsupportedError where the format cannot hold it. So is a
  // tensor that is a key or an attribute of a dict.
  bool drop_objects = false;

  // If set, `out` is a folder of safetensors files with at most this many bytes of tensors each,
  // and their index.
  std::optional<std::uint64_t> shard_bytes = std::nullopt;
  // An existing file, or a folder that is a checkpoint and holds nothing else.
  bool overwrite = false;
  // How the input is verified before it is used. Parts that this leaves out are verified when they
  // are converted.
  Verify verify = Verify::kFull;
  // As in LoadOptions. With `raw`, damaged bytes become part of a whole file. The limit applies to
  // formats into which tensors are written element by element (not to torch.save).
  bool raw = false;
  std::optional<std::uint64_t> most_repetition = kMostRepetition;
  // The store of the input and the output; local_store() when null.
  std::shared_ptr<ObjectStore> store = nullptr;
  // For what must be expanded. nullopt: $TMPDIR or else /var/tmp.
  std::optional<std::string> scratch_folder = std::nullopt;

  // Called now and then: `stage` is "checking" or "writing", `total` the bytes of that stage.
  // From any thread.
  std::function<void(const char* stage, std::uint64_t more, std::uint64_t total)> on_progress =
      nullptr;
};

struct ConvertResult {
  std::string format;              // as ConvertOptions::to
  std::vector<std::string> files;  // that were written
  std::uint64_t bytes = 0;         // in them
  std::size_t tensors = 0;
  // Paths of what the format cannot hold because it is no tensor; of what is one container at
  // several places, the first.
  std::vector<std::string> left_out;
  // Foreign objects that were written as they were: their classes, and how many of each.
  std::vector<std::pair<std::string, std::size_t>> objects;
  // Paths of those that were dropped, and their classes.
  std::vector<std::pair<std::string, std::string>> dropped;
  // Paths of tensors that had attributes in Python, and the names of these. No format keeps them.
  std::vector<std::pair<std::string, std::string>> lost_attributes;
  // DTensors (cairn/dtensor.h) that were written as full tensors.
  std::size_t gathered = 0;
  // Paths of values (no tensors) that differ between the files of the ranks. The values of the
  // first file were written.
  std::vector<std::string> differing;
  // Names of tensors that are not the keys that they had, as the format has only texts: the name,
  // and what the key was ("of type int", "none: the tensor is the whole object").
  std::vector<std::pair<std::string, std::string>> renamed_keys;
  // Names that stand for the same tensor as another one, and that one's: safetensors keeps them in
  // its metadata.
  std::vector<std::pair<std::string, std::string>> tied;
};

// Reads `in` (a file or folder of any format), and writes `out`, whole and durable or not at all. A
// DTensor becomes a full tensor if `in` holds all of it and the format cannot hold a DTensor. A
// torch.save file holds DTensors as they were.
// Throws NotFoundError, CorruptError, UnsupportedError (naming what the format cannot hold, with
// its class and path), AlreadyExistsError, UsageError (a pattern that matches nothing, two tensors
// with one name), StorageError.
ConvertResult convert(const std::string& in, const std::string& out,
                      const ConvertOptions& options = {});

// Converts what the ranks of one job saved, each in a file of its own. DTensors become full
// tensors, in every format. Give the files of all ranks, once each, in any order. All files must
// have the same keys, and the same tensors except DTensors. Other values are taken from the first
// file. Throws as convert() does; UsageError if the set is not complete or not of one job;
// UnsupportedError for tensors that are still to be reduced over the ranks (Partial).
ConvertResult convert_ranks(const std::vector<std::string>& files, const std::string& out,
                            const ConvertOptions& options = {});

}  // namespace cairn

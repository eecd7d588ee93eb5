// Converts checkpoints from one format to another, without PyTorch.
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
#include "cairn/export.h"
#include "cairn/tensor.h"

namespace CAIRN_PUBLIC cairn {

struct ConvertOptions {
  // The format of the output: "torch" (torch.save, in the container that the extension names),
  // "safetensors" or "dcp" (a new folder of torch.distributed.checkpoint). When empty, the end of
  // `out` decides: ".safetensors", "/" for dcp, or else torch.save.
  std::string to = {};

  // Convert only the model's state dict. In a Composer checkpoint it is `state/model`; in others
  // `model`, `state_dict` or `module`, the first that holds a tensor. A file that already is a flat
  // state dict stays as it is. For a TorchScript archive it is the result of the archive's
  // state_dict() in Python. Throws UsageError if there is no state dict.
  bool weights_only = false;
  // Patterns over paths ("state/model/*"; `*` crosses "/"). A match includes everything below it.
  // They are applied after weights_only.
  std::vector<std::string> include = {};
  std::vector<std::string> exclude = {};
  // Renames tensors: a name that begins with `first` begins with `second` instead; the first pair
  // that fits applies. In safetensors a name is all keys joined by "."; in torch.save it is the
  // last key. Throws UsageError if no name begins with `first`.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // Converts floating-point tensors to float16, bfloat16 or float32, rounding to nearest, ties to
  // even. 8-bit floats, integers and complex numbers stay.
  std::optional<DType> dtype = std::nullopt;

  // Whether to leave out objects of classes that cairn does not know (cairn/foreign.h).
  //
  // If false, they are written unchanged, if the format can hold them. Python runs the code of
  // their classes when it loads the result, as it does for the input. Throws UnsupportedError if
  // the format cannot hold an object that holds tensors, or a tensor that is a key or an attribute
  // of a dict.
  //
  // If true, they are left out: dict entries are removed, and list items become None. A defaultdict
  // keeps its factory only if the factory is one of Python's own types.
  bool drop_objects = false;

  // If set, `out` is a folder of safetensors files with at most this many bytes of tensors each,
  // and their index.
  std::optional<std::uint64_t> shard_bytes = std::nullopt;
  // If true, an existing file, or a folder that holds only a checkpoint, may be replaced.
  bool overwrite = false;
  // How the input is verified first. Parts that this leaves out are verified when they are
  // converted.
  Verify verify = Verify::kFull;
  // As in LoadOptions. With `raw`, damaged bytes end up in a file that looks whole. most_repetition
  // applies only to formats whose tensors are written element by element (not to torch.save).
  bool raw = false;
  std::optional<std::uint64_t> most_repetition = kMaxRepetition;
  // The store of the input and the output; local_store() when null.
  std::shared_ptr<ObjectStore> store = nullptr;
  // Folder for expanding compressed input. nullopt: $TMPDIR or else /var/tmp.
  std::optional<std::string> scratch_folder = std::nullopt;

  // Called from time to time, from any thread: `stage` is "checking" or "writing", `more` the bytes
  // since the last call, `total` the bytes of that stage.
  std::function<void(const char* stage, std::uint64_t more, std::uint64_t total)> on_progress =
      nullptr;
};

struct ConvertResult {
  std::string format;              // as ConvertOptions::to
  std::vector<std::string> files;  // the files written
  std::uint64_t bytes = 0;         // size of these files
  std::size_t tensors = 0;
  // Paths of values that are not tensors, which the format cannot hold. If one container occurs at
  // several paths, only the first of these paths.
  std::vector<std::string> left_out;
  // Foreign objects that were written as they were: their classes, and how many of each.
  std::vector<std::pair<std::string, std::size_t>> objects;
  // Foreign objects that were dropped: their paths and classes.
  std::vector<std::pair<std::string, std::string>> dropped;
  // Paths of tensors that had attributes in Python, and the names of the attributes. No format
  // keeps them.
  std::vector<std::pair<std::string, std::string>> lost_attributes;
  // DTensors (cairn/dtensor.h) that were written as full tensors.
  std::size_t gathered = 0;
  // Paths of values, not tensors, that differ between the files of the ranks. The first file's
  // values were written.
  std::vector<std::string> differing;
  // Tensors whose keys are not strings, although the format needs strings: the name that was
  // written, and the key ("of type int", "none: the tensor is the whole object").
  std::vector<std::pair<std::string, std::string>> renamed_keys;
  // Pairs of names for one tensor: the additional name and the tensor's own. safetensors keeps them
  // in its metadata.
  std::vector<std::pair<std::string, std::string>> tied;
};

// Reads `in` (a file or folder of any format) and writes `out`, whole and durable or not at all. A
// DTensor becomes a full tensor if `in` holds all of it and the format cannot hold a DTensor; a
// torch.save file holds it as it was. Throws NotFoundError, CorruptError, UnsupportedError (naming
// what the format cannot hold, with its class and path), AlreadyExistsError, UsageError (a pattern
// that matches nothing, two tensors with one name), StorageError.
ConvertResult convert(const std::string& in, const std::string& out,
                      const ConvertOptions& options = {});

// Converts the files that the ranks of one job saved, one file per rank. DTensors become full
// tensors, in every format. Pass the files of all ranks once, in any order. All files must have the
// same keys, and the same tensors except DTensors. Other values come from the first file. Throws as
// convert() does; UsageError if a file is missing or belongs to another job; UnsupportedError for
// tensors that must still be reduced over the ranks (Partial).
ConvertResult convert_ranks(const std::vector<std::string>& files, const std::string& out,
                            const ConvertOptions& options = {});

}  // namespace cairn

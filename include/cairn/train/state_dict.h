// State dicts of libtorch objects in Python's layout, and whole checkpoints of a State.
//
//   save(state_dict(*net), "w.pt");                                   // torch.load opens it
//   load_state_dict(*net, open_checkpoint("w.pt"), {.strict = true});
//
// Optimizers: cairn/train/optimizer.h. Random generators: cairn/train/rng.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace torch::nn {
class Module;
}

namespace cairn {

class Logger;
class State;

// A view of a tensor of any device that has memory and streams: no bytes are copied, and the view
// keeps the storage alive. Tensors that share storage give views that share one Storage while
// `tensor`s storage lives. On a GPU the bytes are copied to the host whenever they are read, after
// what the current streams of the reader and of this call have been given until then; reading
// throws StorageError when the device fails. UnsupportedError for a sparse or quantized tensor,
// UsageError for one without elements (of the meta device) or of a device of another kind.
TensorView view_of(const at::Tensor& tensor);

// A torch tensor with the view's elements. Shares memory with the view where `share`; the view's
// owner lives as long as the tensor then. UnsupportedError for a dtype this libtorch lacks.
at::Tensor tensor_of(const TensorView& view, bool share = false);

// OrderedDict of names to tensors, parameters and buffers in Python's order (module by module:
// parameters, buffers, children). Tied parameters share storage. Views of live memory.
Value state_dict(const torch::nn::Module& module);

struct LoadStateDictOptions {
  bool strict = true;  // missing and unexpected names are errors
};
struct IncompatibleKeys {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
};

// Puts the tensors of `state` into the module's: all, or after any error none. MismatchError lists
// missing, unexpected (when strict) and mis-shaped names (always). Float tensors are converted to
// the module's dtype. Returns what was skipped when not strict. Memory as load_checkpoint(), for
// what is not in memory yet or has to be converted.
IncompatibleKeys load_state_dict(torch::nn::Module& module, const Value& state,
                                 LoadStateDictOptions options = {});
// Of a file: what load() of it gives, every byte verified before anything is changed, and read
// once. load_state_dict(module, load(path)) reads each twice: load() to verify it, and this to use
// it. Throws what load() does, too; CorruptError for damage anywhere in the file.
IncompatibleKeys load_state_dict(torch::nn::Module& module, const Checkpoint& checkpoint,
                                 LoadStateDictOptions options = {});

// --- Whole checkpoints, without a Trainer's loop (composer.utils.checkpoint) ---------------------

struct SaveCheckpointOptions {
  bool weights_only = false;
  IgnoreKeys ignore_keys = {};
  std::shared_ptr<ObjectStore> store = nullptr;  // local_store() when null
};

// Saves `state` as a checkpoint named by the format string `filename` and returns its path. In a
// job of several processes all call it, and rank 0 writes; those of a sharded one write a folder
// together, as Trainer::save_checkpoint().
std::string save_checkpoint(const State& state,
                            const std::string& filename = "ep{epoch}-ba{batch}-rank{rank}",
                            const SaveCheckpointOptions& options = {});

// {"state": ..., "rng": [...]}, or {"state": {"model", "integrations", "metadata"}}, after
// ignore_keys. Of several processes all call it; above rank 0 the result is empty. Views of live
// memory. `logger` gets a warning for each pattern that matched nothing.
Value checkpoint_value(const State& state, const SaveCheckpointOptions& options,
                       Logger* logger = nullptr);

struct LoadCheckpointOptions {
  bool load_weights_only = false;
  // False: names that only the model or only the file has are logged. It is still an error if no
  // weight fits.
  bool strict_model_weights = true;
  IgnoreKeys ignore_keys = {};
  std::vector<std::string> exclude_algorithms = {};
  Verify verify = Verify::kFull;
  std::shared_ptr<ObjectStore> store = nullptr;  // where the path is; local_store() when null
  bool in_place = false;
};

// Loads a checkpoint written by cairn or Composer into `state`: all of it, or, after any error,
// nothing. Reads every tensor once, into fresh memory, and checks it on the way. When everything is
// there and fits, puts it in place by steps that cannot fail. MismatchError lists what does not
// fit, or says that the file is no checkpoint of a run (no "state/model"). CorruptError names what
// is damaged; StorageError says what could not be read. std::bad_alloc or an Error says that there
// is not enough memory. Live objects without an entry keep their state; `logger` gets a warning for
// each. Returns the "rng" entry for restore_rng_states(), or nullopt if there is none or only
// weights were asked for.
//
// Memory: that of the tensors that are loaded, beside the present ones, until the end. Where nobody
// else has a tensor's memory, it takes that of the new elements: pointers to the old ones
// (data_ptr(), from_blob() of it) are invalid then, Values of state_dict() and views are not.
//
// With `in_place` weights are read straight into the model, when everything else was read, was
// checked and fits: no memory beside, no pointer is invalid, and half of the time. In return an
// error of that last part (a byte of the weights is damaged, the disk fails) leaves the model with
// some of each, and says so. What is loaded is verified, and no other byte of the file. For weights
// too large to be held twice, and new models, whose weights nobody misses. Those on a GPU come from
// a `.pt` of this machine's disks through buffers of the host's memory, the same for weights of any
// size; from elsewhere they come as without it.
std::optional<Value> load_checkpoint(const std::string& path, State& state, Logger& logger,
                                     const LoadCheckpointOptions& options = {});
// Of a file that was opened, by find_latest() for one.
std::optional<Value> load_checkpoint(const Checkpoint& checkpoint, State& state, Logger& logger,
                                     const LoadCheckpointOptions& options = {});

}  // namespace cairn

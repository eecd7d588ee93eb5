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
#include "cairn/export.h"
#include "cairn/value.h"

namespace torch::nn {
class Module;
}

namespace CAIRN_PUBLIC cairn {

class Logger;
class State;

// A view of a tensor on any device that has memory and streams. Copies no bytes; the view keeps the
// storage alive. Tensors that share storage give views that share one Storage while `tensor`'s
// storage lives.
//
// On a GPU each read copies the bytes to the host. The read first waits for all work that the
// current streams of the reader and of this call have been given until then. A read throws
// StorageError if the device fails. view_of() throws UnsupportedError for a sparse or quantized
// tensor. view_of() throws UsageError for a tensor without elements (of the meta device) or on a
// device of another kind.
TensorView view_of(const at::Tensor& tensor);

// A torch tensor with the view's elements. If `share` is true, it shares the view's memory, and
// keeps the view's owner alive. Throws UnsupportedError for a dtype that this libtorch lacks.
at::Tensor tensor_of(const TensorView& view, bool share = false);

// OrderedDict of names to tensors, in Python's order (module by module: parameters, buffers,
// children). Tied parameters share storage. The tensors are views of live memory.
Value state_dict(const torch::nn::Module& module);

struct LoadStateDictOptions {
  bool strict = true;  // missing and unexpected names are errors
};
struct IncompatibleKeys {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
};

// Copies the tensors of `state` into the module's: all of them, or, after any error, none.
// MismatchError lists missing and unexpected names (if strict) and mis-shaped ones (always). Float
// tensors are converted to the module's dtype. Returns the names that were skipped if not strict.
// Tensors that are not in memory yet, or must be converted, need memory as in load_checkpoint().
IncompatibleKeys load_state_dict(torch::nn::Module& module, const Value& state,
                                 LoadStateDictOptions options = {});
// As above, for a file. Verifies every byte of the file before it changes the module, and reads the
// file once. (With load_state_dict(module, load(path)), load() reads each byte to verify it, and
// this function reads it again.) Also throws what load() throws; CorruptError for damage anywhere
// in the file.
IncompatibleKeys load_state_dict(torch::nn::Module& module, const Checkpoint& checkpoint,
                                 LoadStateDictOptions options = {});

// --- Whole checkpoints, without a Trainer's loop (composer.utils.checkpoint) ---------------------

struct SaveCheckpointOptions {
  bool weights_only = false;
  IgnoreKeys ignore_keys = {};
  std::shared_ptr<ObjectStore> store = nullptr;  // local_store() when null
};

// Saves `state` as a checkpoint named by the format string `filename` and returns its path. In a
// job of several processes all ranks call it, and rank 0 writes. The ranks of a sharded run write a
// folder together, as Trainer::save_checkpoint() does.
std::string save_checkpoint(const State& state,
                            const std::string& filename = "ep{epoch}-ba{batch}-rank{rank}",
                            const SaveCheckpointOptions& options = {});

// Returns {"state": ..., "rng": [...]}, or {"state": {"model", "integrations", "metadata"}}, after
// ignore_keys. In a job of several processes all ranks call it, and all except rank 0 get an empty
// result. Tensors are views of live memory. `logger` gets a warning for each pattern that matched
// nothing.
Value checkpoint_value(const State& state, const SaveCheckpointOptions& options,
                       Logger* logger = nullptr);

struct LoadCheckpointOptions {
  bool load_weights_only = false;
  // If false, names that only the model or only the file has are logged. It is still an error if no
  // weight fits.
  bool strict_model_weights = true;
  IgnoreKeys ignore_keys = {};
  std::vector<std::string> exclude_algorithms = {};
  Verify verify = Verify::kFull;
  std::shared_ptr<ObjectStore> store = nullptr;  // the store of the path; local_store() when null
  bool in_place = false;
};

// Loads a checkpoint written by cairn or Composer into `state`: all of it, or, after any error,
// nothing. Reads every tensor once, into new memory, and verifies it on the way. When everything
// was read and fits, applies it by steps that cannot fail. Live objects without an entry keep their
// state; `logger` gets a warning for each. Returns the "rng" entry for restore_rng_states(), or
// nullopt if there is none or only weights were asked for.
//
// Throws MismatchError, which lists what does not fit, or says that the file is not a checkpoint of
// a run (no "state/model"). CorruptError names what is damaged; StorageError says what could not be
// read; std::bad_alloc or an Error says that there is not enough memory.
//
// Memory: the loaded tensors exist beside the present ones until the end. A tensor whose memory is
// not shared then takes over the new memory. Pointers to its old elements (data_ptr(), from_blob()
// of it) become invalid; Values of state_dict() and views stay valid.
//
// With `in_place` weights are read straight into the model, after everything else was read, checked
// and fits. Reading in place needs no additional memory, keeps pointers valid, and takes half of
// the time. But an error in this last step (damaged weights, a failing disk) leaves the model with
// a mix of old and new weights, and says so. Only what is loaded is verified, no other byte of the
// file. Use it for weights too large to be held twice, and for new models, whose weights do not
// matter yet. Weights for a GPU from a `.pt` on a local disk pass through host buffers, whose size
// does not depend on the weights. Weights for a GPU from elsewhere are loaded as without
// `in_place`.
std::optional<Value> load_checkpoint(const std::string& path, State& state, Logger& logger,
                                     const LoadCheckpointOptions& options = {});
// As above, for an open file, such as the one that find_latest() returns.
std::optional<Value> load_checkpoint(const Checkpoint& checkpoint, State& state, Logger& logger,
                                     const LoadCheckpointOptions& options = {});

}  // namespace cairn

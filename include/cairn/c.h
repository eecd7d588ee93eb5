// cairn for other languages: saves, loads, verifies and finds checkpoints. Plain C99; the library
// libcairn-c needs glibc only.
//
//   const int64_t shape[] = {2, 3};
//   const cairn_tensor weight = {"weight", "float32", 2, shape, NULL, values};
//   cairn_tree* tree = NULL;
//   cairn_error* error = NULL;
//   if (cairn_tree_from_tensors(&weight, 1, &tree, &error) != CAIRN_OK ||
//       cairn_save(tree, "weights.pt", 0, &error) != CAIRN_OK) {
//     fprintf(stderr, "%s\n", cairn_error_message(error));
//   }
//   cairn_error_free(error);
//   cairn_tree_free(tree);
//
// A tree crosses this interface in one of two forms. The first is a pickle with storages. The
// pickle is like data.pkl of a torch.save file. A tensor is a call of
// torch._utils._rebuild_tensor_v2, and its storage is a persistent id ('storage', class, key,
// location, elements). The key is the decimal index of the storage in the array beside the pickle.
// Nothing that a pickle names is run. The second form is tensors with names, which are a flat dict.
//
// Texts are UTF-8. Functions that can fail return a cairn_status; if `error` is not null, they set
// *error to an object that the caller frees, and to null if they succeed. No function throws or
// ends the process. Objects are freed by their own functions, which accept null. Several threads
// may use different objects at once. Functions that take a const cairn_tree* may be called at once
// for one tree; the others change it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// The kinds of errors, by what a caller can do about them. Each is a class of cairn/error.h.
typedef enum cairn_status {
  CAIRN_OK = 0,
  CAIRN_USAGE = 1,           // the arguments are impossible
  CAIRN_NOT_FOUND = 2,       // the place that was named does not exist
  CAIRN_ALREADY_EXISTS = 3,  // and may not be replaced
  CAIRN_CORRUPT = 4,         // the bytes are damaged
  CAIRN_UNSUPPORTED = 5,     // valid, but cairn cannot do it
  CAIRN_MISMATCH = 6,        // whole, but does not fit
  CAIRN_STORAGE = 7,         // a disk or a store failed
  CAIRN_UNREADABLE = 8,      // bytes that exist cannot be read
  CAIRN_OUT_OF_MEMORY = 9,
  CAIRN_BUSY = 10,  // another process trains the run
  CAIRN_CANCELLED = 11,
  CAIRN_TRAINING = 12,
  CAIRN_OTHER = 13  // an error that is not cairn's
} cairn_status;

typedef struct cairn_error cairn_error;

// One or more lines, which are safe to print. Valid until the error is freed.
const char* cairn_error_message(const cairn_error* error);
// The exit code for a program that this error ends (cairn/exit_code.h).
int cairn_error_exit_code(const cairn_error* error);
// For CAIRN_STORAGE and CAIRN_UNREADABLE: errno or the HTTP status, and 1 if the same call may
// succeed later. Otherwise 0.
int cairn_error_number(const cairn_error* error);
int cairn_error_is_retryable(const cairn_error* error);
void cairn_error_free(cairn_error* error);

// "0.1.0". The text is constant.
const char* cairn_version(void);

// Frees a text that a function returned.
void cairn_text_free(char* text);

// --- Trees -----------------------------------------------------------------------------------

typedef struct cairn_tree cairn_tree;

typedef struct cairn_bytes {
  void* data;
  uint64_t size;
} cairn_bytes;

typedef struct cairn_tensor {
  const char* name;
  const char* dtype;  // PyTorch's name: "float32", "bfloat16", "bool"
  int64_t dimensions;
  const int64_t* shape;
  const int64_t* strides;  // in elements, none negative; null: row-major
  void* data;              // little-endian; the first element
} cairn_tensor;

// Makes a tree. The tree refers to the memory of the tensors: keep it until the last cairn_save()
// or cairn_saver_save() of the tree has returned. The pickle and all texts are copied.
cairn_status cairn_tree_from_pickle(cairn_bytes pickle, const cairn_bytes* storages, size_t count,
                                    cairn_tree** tree, cairn_error** error);
cairn_status cairn_tree_from_tensors(const cairn_tensor* tensors, size_t count, cairn_tree** tree,
                                     cairn_error** error);
void cairn_tree_free(cairn_tree* tree);

// Fails with CAIRN_UNSUPPORTED unless every object in the tree is of a class that cairn reads, of
// Python's datetime, or of one of `allowed` ("package.module.Class"). The message names the class
// and the path of the first other object.
cairn_status cairn_tree_check_classes(const cairn_tree* tree, const char* const* allowed,
                                      size_t count, cairn_error** error);

// Sets *lines to a line for each tensor that had attributes in Python, which are not kept: its path
// and their names. Null if there is none; otherwise freed with cairn_text_free().
cairn_status cairn_tree_lost_attributes(const cairn_tree* tree, char** lines, cairn_error** error);

// The tree as a pickle of protocol 2, and the storages that it refers to. `data` of a storage is
// null until the storage was read. Valid until the tree is freed.
cairn_status cairn_tree_pickle(cairn_tree* tree, cairn_bytes* pickle, cairn_error** error);
cairn_status cairn_tree_storages(cairn_tree* tree, const cairn_bytes** storages, size_t* count,
                                 cairn_error** error);
// Every tensor of the tree with its path ("state/model/weight"), in tree order. Sparse tensors are
// listed by their parts. `data` is null until the storages were read. Valid as above.
cairn_status cairn_tree_tensors(cairn_tree* tree, const cairn_tensor** tensors, size_t* count,
                                cairn_error** error);

// --- Checkpoints ------------------------------------------------------------------------------

// Flags of functions, to be combined.
enum {
  CAIRN_NO_OVERWRITE = 1,  // cairn_save: fail if the place exists
  CAIRN_UNVERIFIED = 2     // cairn_load: check structure and sizes, but not each byte
};

// Writes the tree to a path or a URI, and returns when it would survive a power cut. The extension
// selects the container, as in cairn/checkpoint/checkpoint.h. After an error nothing of that name
// has changed.
cairn_status cairn_save(const cairn_tree* tree, const char* place, unsigned flags,
                        cairn_error** error);

// Opens a checkpoint of any format and reads its tree, but not its tensors. Then cairn_tree_read()
// or cairn_tree_map() reads the same file, even if its name was replaced meanwhile.
cairn_status cairn_load(const char* place, unsigned flags, cairn_tree** tree, cairn_error** error);

// Reads all storages, and verifies the whole checkpoint in the same pass unless CAIRN_UNVERIFIED
// was given. `into`: memory of the caller for each storage, in order; or null: memory of the tree.
// After an error the content of this memory is undefined.
cairn_status cairn_tree_read(cairn_tree* tree, void* const* into, cairn_error** error);
// Verifies the whole checkpoint, unless CAIRN_UNVERIFIED was given, and maps its file. The mapping
// is writable and private: changes go to memory, not to the file. Storages that are no ranges of
// one local file are read as by cairn_tree_read().
cairn_status cairn_tree_map(cairn_tree* tree, cairn_error** error);

// Removes a file or an object. Sets *removed to 0 if there is none, else to 1.
cairn_status cairn_remove(const char* place, int* removed, cairn_error** error);

// Sets *path to the good checkpoint in the folder that is furthest in training, or to null if there
// is none. `filename` is the format of the names to look for ("step{batch}.pt"); null: the names
// that cairn gives. If `skipped` is not null, *skipped gets a line for each checkpoint that was
// passed over, or null. Both texts are freed with cairn_text_free().
cairn_status cairn_find_latest(const char* folder, const char* filename, char** path,
                               char** skipped, cairn_error** error);

// --- Saving in the background -----------------------------------------------------------------

typedef struct cairn_saver cairn_saver;

typedef struct cairn_saver_options {
  size_t size;           // sizeof(cairn_saver_options)
  const char* folder;    // a path, or a URI of a store; required
  const char* filename;  // null: "step{batch}.pt"
  const char* latest;    // the link to the newest; null: none
  const char* run_name;  // in the checkpoints; null: the folder's last name
  int64_t keep;          // how many checkpoints to keep; 0: all
  int overwrite;         // 1: may replace what was in the folder before
} cairn_saver_options;

// A saver is used by one thread at a time.
cairn_status cairn_saver_new(const cairn_saver_options* options, cairn_saver** saver,
                             cairn_error** error);
// Copies the tensors and returns; the caller may change them. A thread writes the checkpoint, makes
// it durable, moves the link, and removes the oldest checkpoints beyond `keep` that are the
// saver's own. One save is under way at a time: waits for the previous one. If an earlier save
// failed, fails with its error, once, and saves nothing.
//
// `name`: the name below the folder; null: `filename` with the step. `step`: the position in
// training, unless the tree has a Trainer's timestamp; -1: none.
cairn_status cairn_saver_save(cairn_saver* saver, const cairn_tree* tree, const char* name,
                              int64_t step, cairn_error** error);
// Waits until all is durable. Fails with the error of a save that failed, once.
cairn_status cairn_saver_wait(cairn_saver* saver, cairn_error** error);
// Finds the newest good checkpoint in the folder. *tree: as cairn_load() gives it, or null if there
// is none. The tensors are verified when they are read. If they turn out to be damaged, call this
// again with *path as it is, and the search goes on after that checkpoint; otherwise *path must be
// null. The caller frees each *path and *skipped, as of cairn_find_latest(). From now on, those
// checkpoints in the folder that savers of this run wrote count as this saver's own, and may be
// replaced. With a run_name, checkpoints that name another run are passed over.
cairn_status cairn_saver_resume(cairn_saver* saver, cairn_tree** tree, char** path, char** skipped,
                                cairn_error** error);
// Waits for saves under way. Errors that no call has returned are lost.
void cairn_saver_free(cairn_saver* saver);

// --- The tool ---------------------------------------------------------------------------------

typedef struct cairn_answer {
  int exit_code;
  char* out;  // what the command printed to stdout and stderr; freed with cairn_text_free()
  char* err;
} cairn_answer;

// Runs a command of the tool in this process: {"verify", "--json", "ep1.pt"}. That a command fails
// is no error here: the answer says so.
cairn_status cairn_tool(const char* const* arguments, size_t count, cairn_answer* answer,
                        cairn_error** error);
// The same, but prints to the process's own stdout and stderr.
cairn_status cairn_tool_main(const char* const* arguments, size_t count, int* exit_code,
                             cairn_error** error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

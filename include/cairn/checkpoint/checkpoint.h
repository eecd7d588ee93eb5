// Saving, loading, verifying and finding checkpoints, without a Trainer and without libtorch.
//
//   save(value, "ckpt/ep1.pt");                       // durable and whole, or not there
//   Value again = load("ckpt/ep1.pt");                // every byte checked first
//   auto newest = find_latest("ckpt");                // the newest that verifies, open; or nullopt
//   if (newest) again = load(newest->checkpoint);     // of that very file
//
// docs/checkpoints.md says what is left after a crash at any moment.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/checkpoint/names.h"
#include "cairn/export.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// A checkpoint's description of itself. The description is in the record ".cairn/manifest.json" of
// the file, which PyTorch ignores, and is read without decoding the file.
struct CheckpointInfo {
  std::string kind = "value";  // "full", "weights" (a Trainer's), or "value" (anything else)
  std::string run_name = {};
  std::optional<Timestamp> timestamp = std::nullopt;  // of the Trainer's state
};

struct SaveOptions {
  // If false and a file of this name exists: throws AlreadyExistsError and changes nothing.
  bool overwrite = true;
  CheckpointInfo info = {};
  std::shared_ptr<ObjectStore> store = nullptr;  // null: local_store()
};

// Writes `value` to `path` and returns when the file would survive a power cut. Creates missing
// folders. After an error nothing of that name has changed, and no temporary file is left. There is
// one exception: if only the last step fails, syncing the folder, the new file exists but may not
// survive a power cut.
//
// The extension selects the container: ".pt" or none, ".tar", ".tar.gz", ".tgz", ".tar.bz2",
// ".tar.lzma", ".pt.gz", ".pt.bz2", ".pt.xz", ".pt.lzma", ".pt.lz4", ".pt.zst", ".pt.lzo"
// (docs/formats/containers.md). Other dots are part of the name. Throws UsageError for a likely
// mistake such as ".zstd".
//
// Memory: at most 64 MiB besides `value`; 256 MiB when it is compressed.
void save(const Value& value, const std::string& path, const SaveOptions& options = {});

enum class Verify {
  kFull,   // every byte, by the manifest if there is one, otherwise by the CRCs of the records
  kQuick,  // structure, sizes and manifest; reads no tensor bytes
  // As kQuick. Also checks every byte that Checkpoint::read() brings into memory. If the format has
  // no checksums of its tensors, checks as kFull does. For reading a part of a far checkpoint.
  kWhatIsRead,
};

// A few bytes can appear as terabytes: through a stride of 0, or through a part that occurs at many
// places of a tree. Each byte of a checkpoint's files may appear this many times; 256 MiB more are
// always allowed.
inline constexpr std::uint64_t kMaxRepetition = 256;
[[deprecated("use kMaxRepetition")]] inline constexpr std::uint64_t kMostRepetition = 256;

struct LoadOptions {
  Verify verify = Verify::kFull;
  IgnoreKeys ignore_keys = {};
  // Throws UnsupportedError if the object shows more bytes than this allows; nullopt: no limit.
  std::optional<std::uint64_t> most_repetition = kMaxRepetition;
  // If true, nothing is verified, neither now nor when a tensor is read: for rescuing what is left
  // of a damaged file. Only for load() of a path: UsageError for a Checkpoint.
  bool raw = false;
  std::shared_ptr<ObjectStore> store = nullptr;  // as SaveOptions::store
};

// Reads a checkpoint of any format, in any container. Tensors are ranges of the file: each is read
// when it is asked for, and the file stays open while one of them lives. Tensors of a compressed
// file are ranges of an unnamed file in $TMPDIR or else /var/tmp. With Verify::kQuick a record is
// verified when one of its tensors is first read, which throws CorruptError if the record is
// damaged. Throws NotFoundError; CorruptError naming the damaged tensors and byte ranges;
// UnsupportedError saying what the file is; UsageError for a folder that is not a checkpoint.
Value load(const std::string& path, const LoadOptions& options = {});

// One damaged place of a file.
struct Damage {
  std::string what = {};                  // "CRC-32 differs: expected 1b2c3d4e, found 00000000"
  std::string record = {};                // "data/3"; empty when it is the file's own structure
  std::vector<std::string> tensors = {};  // paths of the tensors in that record
  std::uint64_t begin = 0;                // byte range in the file
  std::uint64_t end = 0;
  std::string describe() const;  // "record data/3 (tensor w), bytes 64 to 128: what"
};

struct VerifyReport {
  std::vector<Damage> damage;  // empty: everything that was checked is good
  std::size_t records = 0;
  std::uint64_t bytes = 0;
  bool has_manifest = false;  // cairn wrote it, so every byte of the file is accounted for
  bool has_checksums = true;  // false: its writer left the CRCs out, so no content was checked
  std::size_t unchecked = 0;  // records without a CRC in a file whose other records have one
  std::optional<CheckpointInfo> info;
  bool ok() const { return damage.empty(); }
  std::string summary() const;  // one line
};

// Checks a file without loading it. Damage is a result, not an error. Throws NotFoundError,
// UsageError and StorageError as load() does.
VerifyReport verify(const std::string& path, Verify how = Verify::kFull,
                    const std::shared_ptr<ObjectStore>& store = nullptr);

// A storage of a Value that load() returned, and memory for all of its bytes.
struct StorageRead {
  std::shared_ptr<const Storage> storage;
  std::span<std::byte> into;  // as long as the storage
};

// An opened checkpoint. A Checkpoint keeps referring to the same file, even if the name is removed
// or reused, so load() decodes what verify() found good. (Another program may still write *into*
// the file. If you decode long after verify(), verify again.) Copies share it; safe to use from
// several threads. The file stays open while a copy or one of its tensors lives. A folder's files
// stay open up to the limit of open files. The others are reopened when needed; it is an error if
// one of them is no longer the same file.
class Checkpoint {
 public:
  // Made by open_checkpoint() and find_latest().
  const std::string& path() const;
  // Its own description. Without a manifest it is derived from the content: "full" if there is a
  // Trainer's timestamp. Reads no tensor.
  CheckpointInfo info() const;
  // As verify() above. Each call reads the tensors again. The description of the tensors, such as a
  // folder's `.metadata`, was read into memory when the checkpoint was opened, and is checked in
  // memory.
  VerifyReport verify(Verify how = Verify::kFull) const;
  // Brings bytes into memory and verifies them, in one pass if the format has checksums of its
  // tensors. The report is about the bytes in memory, whatever happens to the file later. Tensors
  // that must be decoded or byte-swapped are read once more for that. Damage is a result, not an
  // error. After damage or an error the content of the destinations is undefined. With
  // Verify::kQuick the destinations get the bytes of the file without a check. Throws StorageError;
  // UsageError for a destination of another length.
  VerifyReport read(const std::vector<StorageRead>& reads, Verify how = Verify::kFull) const;

  struct Impl;  // cairn's own access to it: internal

 private:
  explicit Checkpoint(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Opens a checkpoint of any format. Throws as load() does, except for damage that only verifying
// finds.
Checkpoint open_checkpoint(const std::string& path,
                           const std::shared_ptr<ObjectStore>& store = nullptr);

// As load() above; LoadOptions::store is ignored.
Value load(const Checkpoint& checkpoint, const LoadOptions& options = {});

struct FindOptions {
  // The names to look for. Empty: "ep{epoch}-ba{batch}-rank{rank}.pt", the Trainer's default. If no
  // checkpoint with such a name is good: all other checkpoints directly in the folder, the newest
  // file first.
  NameFormat filename = {};
  std::string run_name = {};  // value of {run_name} in `filename`
  // A link to follow as well, or a text file of that name plus ".symlink"; may be empty.
  NameFormat latest_filename = "latest-rank{rank}.pt";
  // For stores where listing costs more than a request. If true and the link leads to a good
  // checkpoint, that checkpoint is the answer, and nothing is listed. The search then misses a
  // newer checkpoint if the run was killed before it moved the link. The search finds the newer
  // checkpoint only if the checkpoint that the link leads to is not good.
  bool trust_latest = false;
  bool full_state_only = true;  // pass over a Trainer's saves of weights alone
  // Verify::kQuick is for callers that verify while loading, and then look for an older checkpoint.
  Verify verify = Verify::kFull;
  std::vector<std::string> except = {};  // paths to pass over silently
  // Called for each candidate that is passed over, with its path and the reason, in one line. Null:
  // the lines go to stderr. A function that does nothing silences them.
  std::function<void(const std::string& path, const std::string& why)> on_skip = nullptr;
  // If set, candidates that say that they belong to another run than `run_name` are passed over,
  // and this is called for each. If null, candidates of any run are taken.
  std::function<void(const std::string& path, const std::string& run_name)> on_other_run = nullptr;
  // Called for each candidate that is older than the answer, the furthest in training first. Most
  // of them were not opened: their timestamps hold only the counters in their names.
  std::function<void(const std::string& path, const Timestamp& timestamp)> on_older = nullptr;
  std::shared_ptr<ObjectStore> store = nullptr;  // as SaveOptions::store
};

struct FoundCheckpoint {
  std::string path;
  Timestamp timestamp;
  VerifyReport report;
  Checkpoint checkpoint;  // the file that was verified
};

// Finds the checkpoint that is furthest in training, among those in `folder` that verify and hold a
// state: a Trainer's, or what save() wrote. Verifies in full unless `options` ask for less. Names
// say where to look first. A file whose name claims less progress than the answer is not opened. So
// the search costs the same in a folder of ten as in one of ten thousand. Damaged files, foreign
// files and links to nothing are reported and left where they are. Returns nullopt if there is no
// checkpoint or no folder. Throws StorageError for a candidate that cannot be read now (no
// permission, no room in $TMPDIR, too many open files) and might be the furthest. `folder` is a
// path, and braces are part of it. If it is a format, strict_format(folder,
// dist_variables(run_name)) makes the path. The names in `options` may hold dist variables.
std::optional<FoundCheckpoint> find_latest(const std::string& folder,
                                           const FindOptions& options = {});

}  // namespace cairn

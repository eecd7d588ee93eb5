// Saving, loading, verifying and finding checkpoints, without a Trainer and without libtorch.
//
//   save(value, "ckpt/ep1.pt");                       // durable and whole, or not there
//   Value again = load("ckpt/ep1.pt");                // every byte checked first
//   auto newest = find_latest("ckpt");                // the newest that verifies, open; or nullopt
//   if (newest) again = load(newest->checkpoint);     // of that very file
//
// docs/checkpoints.md says what you have after a crash at any moment.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"
#include "cairn/value.h"

namespace cairn {

// What a checkpoint says of itself, readable without decoding it: kept in the record
// ".cairn/manifest.json" inside the file, which PyTorch ignores.
struct CheckpointInfo {
  std::string kind = "value";  // "full", "weights" (a Trainer's), or "value" (anything else)
  std::string run_name = {};
  std::optional<Timestamp> timestamp = std::nullopt;  // of the Trainer's state
};

struct SaveOptions {
  // Replace a file of this name. When false and it exists: AlreadyExistsError, nothing changed.
  bool overwrite = true;
  CheckpointInfo info = {};
  std::shared_ptr<ObjectStore> store = nullptr;  // where; local_store() when null
};

// Writes `value` to `path` and returns when it would survive a power cut. Missing folders are
// created. On any error nothing of that name changed and no temporary file is left; only when the
// very last step fails, syncing the folder, does the new file stand there without that promise.
// The extension says what is written: ".pt" or none, ".tar", ".tar.gz", ".tgz", ".tar.bz2",
// ".tar.lzma", ".pt.gz", ".pt.bz2", ".pt.xz", ".pt.lzma", ".pt.lz4", ".pt.zst", ".pt.lzo"
// (docs/formats/containers.md). Other dots are part of the name; UsageError for what was meant as
// an extension and is none (".zstd").
// Memory: at most 64 MiB besides `value`; 256 MiB when it is compressed.
void save(const Value& value, const std::string& path, const SaveOptions& options = {});

enum class Verify {
  kFull,   // every byte; a manifest when there is one, the CRCs of the records otherwise
  kQuick,  // structure, sizes and manifest; no tensor bytes are read
  // kQuick, and of Checkpoint::read() every byte that it brings into memory, where the format has
  // checksums of its tensors (kFull for the others): for a part of what is far away.
  kWhatIsRead,
};

// A few bytes may be shown as terabytes: by a tensor with a stride of 0, or by a part that stands
// at many places of a tree. Each byte of a checkpoint's files may be shown as this many bytes; 256
// MiB more are always allowed.
inline constexpr std::uint64_t kMostRepetition = 256;

struct LoadOptions {
  Verify verify = Verify::kFull;
  IgnoreKeys ignore_keys = {};
  // UnsupportedError if the object shows more bytes than this allows; nullopt: no limit.
  std::optional<std::uint64_t> most_repetition = kMostRepetition;
  // If true, nothing is verified, neither now nor when a tensor is read: for rescuing what is left
  // of a damaged file. Only for load() of a path: UsageError for a Checkpoint.
  bool raw = false;
  std::shared_ptr<ObjectStore> store = nullptr;  // as SaveOptions::store
};

// Reads a checkpoint of any format, in any container. Tensors are ranges of the file. They are read
// when they are asked for, and keep the file open while one of them lives. Tensors of a compressed
// file are ranges of an unnamed file in $TMPDIR or else /var/tmp. Verify::kQuick leaves records
// unverified until a tensor is read. The read then verifies its record, once, and throws
// CorruptError if it is damaged. Throws NotFoundError; CorruptError naming the damaged tensors and
// byte ranges; UnsupportedError saying what the file is; UsageError for a folder that is no
// checkpoint.
Value load(const std::string& path, const LoadOptions& options = {});

// One thing that is wrong with a file.
struct Damage {
  std::string what = {};                  // "CRC-32 differs: expected 1b2c3d4e, found 00000000"
  std::string record = {};                // "data/3"; empty when it is the file's own structure
  std::vector<std::string> tensors = {};  // paths of the tensors in that record
  std::uint64_t begin = 0;                // byte range in the file
  std::uint64_t end = 0;
  std::string describe() const;  // "record data/3 (tensor w), bytes 64 to 128: what"
};

struct VerifyReport {
  std::vector<Damage> damage;  // empty: as good as was asked to be checked
  std::size_t records = 0;
  std::uint64_t bytes = 0;
  bool has_manifest = false;  // written by cairn, so every byte of the file is accounted for
  bool has_checksums = true;  // false: its writer left the CRCs out, so no content was checked
  std::size_t unchecked = 0;  // records without a CRC, beside others that have one
  std::optional<CheckpointInfo> info;
  bool ok() const { return damage.empty(); }
  std::string summary() const;  // one line
};

// Checks a file without loading it. Damage is a result, not an error; NotFoundError, UsageError and
// StorageError as for load().
VerifyReport verify(const std::string& path, Verify how = Verify::kFull,
                    const std::shared_ptr<ObjectStore>& store = nullptr);

// A storage of a Value that load() gave, and memory for all of its bytes.
struct StorageRead {
  std::shared_ptr<const Storage> storage;
  std::span<std::byte> into;  // as long as the storage
};

// A checkpoint that was opened. It stays the file that it was, whatever becomes of its name: what
// verify() found good is what load() decodes. (Somebody may still write *into* the file: what is
// decoded long after verify() can be verified once more.) Copies share it; safe from several
// threads. The file stays open while a copy lives, or a tensor of it; of the files of a folder as
// many as the limit of open files allows, the others are opened again and known again, or an error.
class Checkpoint {
 public:
  // open_checkpoint() and find_latest() make it.
  const std::string& path() const;
  // What it says of itself; without a manifest, what the content gives away ("full" when it holds a
  // Trainer's timestamp). Reads no tensor.
  CheckpointInfo info() const;
  // As verify() below. Damage is a result. Each call looks at the tensors again; what says where
  // they are, such as a folder's `.metadata`, is in memory since opening, and checked there.
  VerifyReport verify(Verify how = Verify::kFull) const;
  // Brings bytes into memory and verifies, in one pass where the format has checksums of its
  // tensors: what the report is about is what stands in the places then, whatever becomes of the
  // file. Tensors that have to be made (decoded, bytes swapped) are read for it once more.
  // Damage is a result, not an error. After damage or an error the content of the places is
  // undefined. With Verify::kQuick the places get the bytes of the file without a check.
  // StorageError, UsageError for a place of another length.
  VerifyReport read(const std::vector<StorageRead>& reads, Verify how = Verify::kFull) const;

  struct Impl;  // what cairn itself does with it: internal

 private:
  explicit Checkpoint(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Opens a checkpoint of any format. Throws as load(), but for what only verifying finds.
Checkpoint open_checkpoint(const std::string& path,
                           const std::shared_ptr<ObjectStore>& store = nullptr);

// As load() above; LoadOptions::store does not matter.
Value load(const Checkpoint& checkpoint, const LoadOptions& options = {});

struct FindOptions {
  // The names to look at. Empty: "ep{epoch}-ba{batch}-rank{rank}.pt", the names of a Trainer. If
  // none of these is good: all other checkpoints directly in the folder, the newest file first.
  NameFormat filename = {};
  std::string run_name = {};  // value of {run_name} in it
  // A link to look at as well, or a text file of that name and ".symlink"; may be empty.
  NameFormat latest_filename = "latest-rank{rank}.pt";
  // For stores where listing costs more than a request: when that link leads to a checkpoint that
  // is good, it is the answer, and nothing is listed. A checkpoint that a run was killed behind
  // before it could move the link is not found then; it is as soon as the link's is not good.
  bool trust_latest = false;
  bool full_state_only = true;  // pass over a Trainer's saves of weights alone
  // Verify::kQuick is for who verifies while loading, and then looks for an older one.
  Verify verify = Verify::kFull;
  std::vector<std::string> except = {};  // paths to pass over without a word
  // Called for each candidate that is passed over, with its path and why, one line. Null: the lines
  // go to stderr. A function that does nothing silences them.
  std::function<void(const std::string& path, const std::string& why)> on_skip = nullptr;
  // When set, candidates that say they are of another run than `run_name` are passed over, too, and
  // this is called for each. When not, it does not matter whose they are.
  std::function<void(const std::string& path, const std::string& run_name)> on_other_run = nullptr;
  // Called for each candidate behind the one that was found, the furthest first. Most were not even
  // opened: their timestamps have the counters that are in their names.
  std::function<void(const std::string& path, const Timestamp& timestamp)> on_older = nullptr;
  std::shared_ptr<ObjectStore> store = nullptr;  // as SaveOptions::store
};

struct FoundCheckpoint {
  std::string path;
  Timestamp timestamp;
  VerifyReport report;
  Checkpoint checkpoint;  // the file that was verified
};

// Finds the checkpoint that training got furthest with, among those in `folder` that verify and
// hold a state: a Trainer's, or what save() wrote. Verifies in full unless `options` ask for less.
// Names say where to look first. Files whose names claim less progress than the answer has are not
// opened. So the search costs the same in a folder of ten as in one of ten thousand. Damaged files,
// foreign files and names of no file are reported and left where they are. nullopt if there is no
// checkpoint or no folder. StorageError for a candidate that cannot be read now (no permission, no
// room in $TMPDIR, too many open files) and might be the furthest. `folder` is a path, and braces
// are part of it. If it is a format, strict_format(folder, dist_variables(run_name)) makes the
// path. The names in `options` may hold dist variables.
std::optional<FoundCheckpoint> find_latest(const std::string& folder,
                                           const FindOptions& options = {});

}  // namespace cairn

// An open checkpoint of any format, for load(), verify() and the tool.
//
//  1. A folder is recognised by the files in it, and a file by its first bytes. Names of files do
//     not count.
//  2. A container (compression, tar) is removed, and its content is recognised in turn.
//  3. The reader of the format does the rest.
//
// formats() in source.cpp has one row for each format and container, in the order in which they are
// tried. HACKING.md says how to add one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn {

class PendingReads;

// The facts about a checkpoint that need no read of tensors.
struct SourceInfo {
  std::string format;       // stable, for programs: "torch_zip", "safetensors", "dcp"
  std::string description;  // for people: "a torch.save file"
  std::vector<std::string> containers = {};  // around it, outermost first: {"gzip", "tar"}
  std::string writer = {};                   // "cairn 0.1.0", "PyTorch"; empty if unknown
  std::uint64_t bytes = 0;                   // the stored size of all its files
  // Further facts from the format, in order: {"pickle protocol", "2"}.
  std::vector<std::pair<std::string, std::string>> notes = {};
  std::optional<CheckpointInfo> checkpoint = std::nullopt;  // from cairn's manifest
  // For safetensors: names without a tensor of their own, each with the name whose tensor it
  // shares.
  std::vector<std::pair<std::string, std::string>> tied = {};
};

// Thread-safe for reading. Values that a source has returned stay valid after the source is gone.
// If the files have checksums, every byte of these Values is verified once, at the latest when it
// is read. Reading a damaged byte throws CorruptError. A source opened with Access::kRaw verifies
// nothing.
class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;
  virtual SourceInfo info() const = 0;
  // Returns the object. Reads no tensor's bytes: the object's storages are ranges of files, or are
  // made when they are asked for. Throws CorruptError, also if the checksum of a manifest or header
  // shows that this is not the object that was written. Throws UnsupportedError.
  virtual Value read() const = 0;
  // The model's state dict, if the format keeps it apart from what read() returns, as TorchScript
  // does. nullopt for other formats. Throws what read() throws.
  virtual std::optional<Value> state_dict() const { return std::nullopt; }
  // Verifies. Takes from `reads` the ranges whose bytes it checks. These ranges are filled when
  // check() returns. Damage is in the report and is not thrown; after damage the content of the
  // places is undefined. May release the memory of what it has checked.
  virtual VerifyReport check(PendingReads& reads, Verify how) const = 0;

  // The size of the checkpoint's files in bytes after decompression.
  virtual std::uint64_t expanded_bytes() const { return info().bytes; }

  // A hash of the content: equal for copies of a checkpoint, and different for other content as far
  // as the checksums show. Reads no tensor. Empty without checksums.
  virtual std::string content() const { return {}; }

  // The single file of which the tensors are ranges. nullptr unless reading all of the file costs
  // no more than verifying it: the file must have checksums and be local.
  virtual std::shared_ptr<const ByteSource> whole_file() const { return nullptr; }

  // Like Checkpoint::verify() and Checkpoint::read(). If `ended` becomes true meanwhile,
  // read_into() may throw CancelledError.
  VerifyReport verify(Verify how) const;
  VerifyReport read_into(const std::vector<StorageRead>& reads, Verify how,
                         const std::atomic<bool>* ended = nullptr) const;
  // The same for PendingReads. If `reads` have a put(), the source must have a whole_file().
  VerifyReport read_into(PendingReads& reads, Verify how) const;
};

// Selects the bytes of a file that may be read.
enum class Access : std::uint8_t {
  kVerified,  // only bytes with verified checksums: VerifiedSource
  kRaw,       // all bytes, unverified; the caller must ask for this and tell its user
};

struct OpenOptions {
  std::shared_ptr<ObjectStore> store = nullptr;  // null: local_store()
  std::string scratch_folder = {};               // for ScratchFile; empty: its default
  // Called with the number of further stored bytes that were expanded while opening, or checked by
  // verify(kFull), from any thread. The source that open_source() returns keeps this function.
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;
  Access access = Access::kVerified;  // for tensors and for the metadata that lists them
};

// The names of the rows of formats(): all that this build reads.
struct KnownFormats {
  std::vector<std::string> formats = {};
  std::vector<std::string> containers = {};
};
KnownFormats known_formats();

// Opens a checkpoint. Throws NotFoundError; UnsupportedError, which says what the file is;
// CorruptError if the checkpoint is too damaged to be opened.
std::unique_ptr<CheckpointSource> open_source(const std::string& path,
                                              const OpenOptions& options = {});

// The same for a file that is already open. The source reads this file even if another file has
// taken its name meanwhile. `path` is the file's name for messages.
std::unique_ptr<CheckpointSource> open_file_source(std::shared_ptr<const ByteSource> file,
                                                   const std::string& path,
                                                   const OpenOptions& options = {});

// Returns the message of an error about `path` without the path, for a text that names the path
// already.
std::string without_path(const std::string& message, const std::string& path);

struct VerifiedPath {
  VerifyReport report;
  // Names in a folder that are not part of the checkpoint and were not read: NotingStore::unread().
  std::vector<std::string> not_read = {};
};

// Does what verify() does, with these options.
VerifiedPath verify_path(const std::string& path, Verify how, const OpenOptions& options = {});

}  // namespace cairn

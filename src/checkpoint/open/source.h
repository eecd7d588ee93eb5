// A checkpoint of any format, opened: what load(), verify() and the tool work on.
//
//  1. A folder is recognised by the files in it; a file by its first bytes, never by its name.
//  2. A container (compression, tar) is taken off, and what it held is recognised in turn.
//  3. The reader of the format does the rest.
//
// formats() in source.cpp has one row per format and container, in the order in which they are
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

// What a checkpoint is, as far as can be told without reading tensors.
struct SourceInfo {
  std::string format;       // stable, for programs: "torch_zip", "safetensors", "dcp"
  std::string description;  // for people: "a torch.save file"
  std::vector<std::string> containers = {};  // around it, outermost first: {"gzip", "tar"}
  std::string writer = {};                   // "cairn 0.1.0", "PyTorch"; empty when unknown
  std::uint64_t bytes = 0;                   // of all its files, as they are stored
  // More that the format tells, in order: {"pickle protocol", "2"}.
  std::vector<std::pair<std::string, std::string>> notes = {};
  std::optional<CheckpointInfo> checkpoint = std::nullopt;  // cairn's manifest
  // Names of safetensors without a tensor of their own, and the name whose tensor they have, too.
  std::vector<std::pair<std::string, std::string>> tied = {};
};

// Safe for concurrent reading. Values that it gave out stay valid when it is gone. If the files
// have checksums, every byte that a Value gives was verified, once, at the latest when it was asked
// for. CorruptError if it is damaged. A source that was opened with Access::kRaw verifies nothing.
class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;
  virtual SourceInfo info() const = 0;
  // Returns the object. Reads no tensor's bytes yet: its storages are ranges of files, or made when
  // they are asked for. CorruptError, also if the checksum of a manifest or a header says that the
  // object is another one; UnsupportedError.
  virtual Value read() const = 0;
  // The model's state dict, of a format in which it is not what read() gives: TorchScript. nullopt
  // for others. Throws as read() does.
  virtual std::optional<Value> state_dict() const { return std::nullopt; }
  // Verifies, and takes from `reads` the ranges whose bytes it checks: filled when this returns.
  // Damage is a result, not an error; what stands in the places is undefined then. May release the
  // memory of what it has checked.
  virtual VerifyReport check(PendingReads& reads, Verify how) const = 0;

  // The size of its files in bytes, after decompression.
  virtual std::uint64_t expanded_bytes() const { return info().bytes; }

  // What it holds, in a word: the same for copies of it, and for nothing else as far as its
  // checksums tell. Reads no tensor. Empty where it has no checksums.
  virtual std::string content() const { return {}; }

  // The one file that the tensors are ranges of, where reading all of it costs no more than
  // verifying: it has checksums, and lies here. Otherwise nullptr.
  virtual std::shared_ptr<const ByteSource> whole_file() const { return nullptr; }

  // Checkpoint::verify() and Checkpoint::read(). When `ended` is set meanwhile, it may end with
  // CancelledError.
  VerifyReport verify(Verify how) const;
  VerifyReport read_into(const std::vector<StorageRead>& reads, Verify how,
                         const std::atomic<bool>* ended = nullptr) const;
  // The same; where they are given their bytes, of one with a whole_file() only.
  VerifyReport read_into(PendingReads& reads, Verify how) const;
};

// Selects the bytes of a file that are given out.
enum class Access : std::uint8_t {
  kVerified,  // only bytes whose checksums were verified: VerifiedSource
  kRaw,       // all bytes, unverified: a caller must ask for this, and tell its user
};

struct OpenOptions {
  std::shared_ptr<ObjectStore> store = nullptr;  // local_store() when null
  std::string scratch_folder = {};               // for ScratchFile; its default when empty
  // Called with how many more stored bytes were expanded while opening, or checked by verify(Full);
  // from any thread. What open_source() returns keeps it.
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;
  Access access = Access::kVerified;  // to tensors, and to the metadata that lists them
};

// Names of the rows of formats(): what this build reads.
struct KnownFormats {
  std::vector<std::string> formats = {};
  std::vector<std::string> containers = {};
};
KnownFormats known_formats();

// NotFoundError; UnsupportedError saying what the file is; CorruptError when it cannot even be
// opened.
std::unique_ptr<CheckpointSource> open_source(const std::string& path,
                                              const OpenOptions& options = {});

// The same for a file that is open already, and for nothing else that has its name by now: what was
// looked at before is what is read. `path` is its name for messages.
std::unique_ptr<CheckpointSource> open_file_source(std::shared_ptr<const ByteSource> file,
                                                   const std::string& path,
                                                   const OpenOptions& options = {});

// The message of an error about `path`, for a place where the path is named already.
std::string without_path(const std::string& message, const std::string& path);

struct VerifiedPath {
  VerifyReport report;
  // Names in a folder that were not read, as no part of the checkpoint: NotingStore::unread().
  std::vector<std::string> not_read = {};
};

// verify() with these options.
VerifiedPath verify_path(const std::string& path, Verify how, const OpenOptions& options = {});

}  // namespace cairn

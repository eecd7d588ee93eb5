// The folders of torch.distributed.checkpoint, in both forms, as a CheckpointSource.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/open/formats/candidate.h"
#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/verify/check_records.h"
#include "checkpoint/open/verify/check_whole.h"
#include "checkpoint/open/verify/verified_source.h"
#include "checkpoint/open/verify/verify_dcp.h"
#include "checkpoint/plan/folder_manifest.h"
#include "format/dcp/folder.h"
#include "format/dcp/safetensors_files.h"
#include "format/find_format.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

constexpr std::string_view kMetadata = ".metadata";
constexpr std::string_view kData = ".distcp";

// Returns N of "__N.metadata", the file that each rank writes when it saves without collectives.
std::optional<std::uint32_t> rank_of(std::string_view name) {
  if (!name.starts_with("__") || !name.ends_with(kMetadata)) return std::nullopt;
  const std::string_view digits = name.substr(2, name.size() - 2 - kMetadata.size());
  std::uint32_t rank = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, rank);
  if (digits.empty() || error != std::errc() || stop != end) return std::nullopt;
  return rank;
}

bool is_dcp_name(const std::string& name) {
  return name == kMetadata || name == ".metadata.tmp" || rank_of(name) ||
         (name.starts_with("__") && name.ends_with(kData));
}

// The files of the folder. Each is opened once, so that all code reads the same file.
class FolderFiles {
 public:
  using File = std::shared_ptr<const VerifiedSource>;

  FolderFiles(std::shared_ptr<ObjectStore> store, std::string folder)
      : store_(std::move(store)), folder_(std::move(folder)) {}

  // Thread-safe.
  File open(const std::string& name) {
    if (auto known = opened(name)) return known;
    File file = verified(name, store_->open(join_path(folder_, name)));
    const std::scoped_lock lock(mutex_);
    return opened_.try_emplace(name, std::move(file)).first->second;
  }
  // Returns nullptr if `name` is not a regular file.
  File find(const std::string& name) {
    if (auto known = opened(name)) return known;
    const auto info = store_->stat(join_path(folder_, name));
    return info && info->type == ObjectInfo::Type::kObject ? open(name) : nullptr;
  }
  // Reads all of a file. From now on the file is in memory.
  SharedBytes load(const std::string& name) {
    const auto file = open(name);
    const SharedBytes bytes = read_all(*file);
    const std::scoped_lock lock(mutex_);
    opened_[name] = verified(name, source_of(bytes, file->name()));
    return bytes;
  }
  // From now on, Damage names the items of `folder`.
  void name_by(const std::shared_ptr<const dcp::Folder>& folder) { *opened_folder_ = folder; }
  std::vector<std::string> names() { return list_names(*store_, folder_); }

 private:
  using WeakFolder = std::weak_ptr<const dcp::Folder>;  // weak, because the folder owns the files

  File verified(const std::string& name, std::shared_ptr<const ByteSource> file) {
    return std::make_shared<const VerifiedSource>(
        std::move(file), [name, items = opened_folder_](const auto& read, const auto& records,
                                                        VerifyReport& report) {
          const auto folder = items->lock();
          check_data_records(folder.get(), read, name, records, report);
        });
  }
  File opened(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    const auto known = opened_.find(name);
    return known == opened_.end() ? nullptr : known->second;
  }

  std::shared_ptr<ObjectStore> store_;
  std::string folder_;
  std::mutex mutex_;
  std::map<std::string, File> opened_;
  std::shared_ptr<WeakFolder> opened_folder_ = std::make_shared<WeakFolder>();
};

dcp::Metadata parse_file(FolderFiles& files, const std::string& name) {
  const SharedBytes pickle = files.load(name);
  check_no_stand_in(files.open(name), name);
  try {
    return dcp::parse_metadata(pickle);
  } catch (const CorruptError& e) {
    throw CorruptError(name + ": " + e.what(), name, e.offset());
  } catch (UnsupportedError& e) {
    e.add_context(name);
    throw;
  }
}

dcp::Metadata read_metadata(FolderFiles& files) {
  const std::vector<std::string> names = files.names();
  if (std::find(names.begin(), names.end(), kMetadata) != names.end()) {
    return parse_file(files, std::string(kMetadata));
  }
  std::vector<std::pair<std::uint32_t, std::string>> ranks;
  for (const std::string& name : names) {
    if (const auto rank = rank_of(name)) ranks.emplace_back(*rank, name);
  }
  if (ranks.empty()) {
    throw CorruptError("the checkpoint is not whole: .metadata, which is written last, is missing",
                       std::string(kMetadata), 0);
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<dcp::Metadata> metadata;
  for (const auto& [rank, name] : ranks) {
    if (rank != metadata.size()) {
      throw CorruptError(
          fmt::format("the checkpoint is not whole: __{}.metadata is missing", metadata.size()),
          fmt::format("__{}.metadata", metadata.size()), 0);
    }
    metadata.push_back(parse_file(files, name));
  }
  return dcp::merge_metadata(std::move(metadata));
}

// Runs `work`, and adds the folder's path to its errors.
template <class Work>
auto in_folder(const std::string& path, Work work) {
  try {
    return work();
  } catch (const CorruptError& e) {
    throw CorruptError(path + ": " + e.what(), join_path(path, e.file()), e.offset());
  } catch (UnsupportedError& e) {
    e.add_context(path);
    throw;
  }
}

std::vector<std::string> shard_names(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return !dcp::is_shard_name(name); });
  return names;
}

dcp::Metadata read_shards(FolderFiles& files) {
  std::vector<std::pair<std::string, std::shared_ptr<const ByteSource>>> shards;
  for (const std::string& name : shard_names(files.names())) {
    shards.emplace_back(name, files.open(name));
  }
  return dcp::metadata_of_shards(shards);
}

struct DcpForm {
  const FormatRow& row;
  const char* description;
  dcp::Metadata (*read_metadata)(FolderFiles&);
};
const DcpForm kPickled = {kDcpFormat, "a torch.distributed.checkpoint folder", read_metadata};
const DcpForm kSafetensors = {kDcpSafetensorsFormat,
                              "a torch.distributed.checkpoint folder in safetensors form",
                              read_shards};

// The folder's manifest and the files that it lists. The manifest is opened with the folder, but
// read only when it is needed: loading without verifying does not need the manifest.
class ManifestCheck {
 public:
  // `files` must outlive this object.
  explicit ManifestCheck(FolderFiles& files) : files_(files), text_(files.find(kFolderManifest)) {}

  std::uint64_t bytes() const { return text_ ? text_->size() : 0; }
  std::string writer() const {
    const ManifestState& state = read();
    if (!state.newer.empty()) return "a newer cairn";
    return state.manifest ? state.manifest->writer : "PyTorch";
  }
  // Why the manifest of a newer cairn cannot be used; otherwise empty.
  const std::string& newer() const { return read().newer; }
  bool has_manifest() const {
    const ManifestState& state = read();
    return state.manifest.has_value() || !state.problem.empty();
  }

  // A hash over the hashes of the files.
  std::string content() const {
    const ManifestState& state = read();
    if (!state.manifest) return {};
    Xxh3 hash;
    for (const ManifestFile& file : state.manifest->files) {
      hash.write(as_bytes(file.name + " " + file.xxh3_128 + "\n"));
    }
    return hash.digest128();
  }

  // Adds damage where a file differs from the manifest. Checks data files only with Verify::kFull,
  // because a hash of the whole file says nothing about a part. Takes from `reads` the ranges that
  // it checks.
  void verify(Verify how, const std::function<void(std::uint64_t)>& on_progress,
              PendingReads& reads, VerifyReport& report) const {
    const ManifestState& state = read();
    if (!state.problem.empty()) {
      report.damage.push_back(
          {.what = state.problem, .record = kFolderManifest, .begin = 0, .end = bytes()});
    }
    if (!state.manifest) return;
    for (std::size_t i = 0; i < state.contents.size(); ++i) {
      const ManifestFile& file = state.manifest->files[i];
      if (how != Verify::kFull && file.name != kMetadata) continue;
      const VerifiedSource& content = *state.contents[i];
      const std::string found = digest(
          {.file = content.under(), .on_progress = on_progress, .places = reads.take(content)});
      if (found == file.xxh3_128) {
        content.set_good();
        continue;
      }
      report.damage.push_back(
          {.what = "its XXH3-128 is " + found + ", but " + file.xxh3_128 + " was written",
           .record = file.name,
           .begin = 0,
           .end = file.bytes});
    }
  }

 private:
  struct ManifestState {
    std::string problem = {};
    std::string newer = {};
    std::optional<FolderManifest> manifest = std::nullopt;
    std::vector<FolderFiles::File> contents = {};  // the files that it lists
  };

  const ManifestState& read() const {
    std::call_once(is_read_, [this] { manifest_state_ = parse(); });
    return manifest_state_;
  }

  ManifestState parse() const {
    if (!text_) return {};
    ManifestState state;
    const SharedBytes text = read_all(*text_);
    try {
      state.manifest = parse_folder_manifest(as_text(text.view));
    } catch (const CorruptError& e) {
      return {.problem = e.what()};
    } catch (const UnsupportedError& e) {  // from a newer cairn: the folder is whole without it
      return {.newer = e.what()};
    }
    for (const ManifestFile& file : state.manifest->files) {
      state.contents.push_back(files_.find(file.name));
      // A file of another size is not the file of the manifest: PyTorch has saved into the folder.
      // If such files are damaged, their own structure shows it.
      if (!state.contents.back() || state.contents.back()->size() != file.bytes) return {};
    }
    return state;
  }

  static std::string digest(const CheckedRead& read) {
    std::string digest = Xxh3().digest128();
    for_each_xxh3(read, {{.name = read.file.name(), .offset = 0, .size = read.file.size()}},
                  [&](std::size_t, const Xxh3& hash) { digest = hash.digest128(); });
    return digest;
  }

  FolderFiles& files_;
  std::shared_ptr<const ByteSource> text_;
  mutable std::once_flag is_read_;
  mutable ManifestState manifest_state_;
};

class DcpSource final : public CheckpointSource {
 public:
  DcpSource(const Candidate& candidate, const DcpForm& form)
      : path_(candidate.path),
        on_progress_(candidate.on_progress),
        access_(candidate.access),
        form_(form),
        files_(std::make_shared<FolderFiles>(candidate.store, candidate.path)),
        manifest_(*files_) {
    folder_ = in_folder(path_, [&] {
      const auto open_verified = [&](const std::string& name) { return files_->open(name); };
      const auto open_raw = [&](const std::string& name) {
        return files_->open(name)->shared_under();
      };
      const dcp::OnChunk expect = [files = files_](const auto& piece, const TorchFile& file) {
        expect_chunk(*files->open(std::string(piece.chunk->location.file)), piece, file);
      };
      const dcp::OnChunk on_chunk = is_verified() ? expect : nullptr;
      return dcp::Folder::open(form.read_metadata(*files_), open_raw, candidate.scratch_folder,
                               {.open_file = open_verified, .on_chunk = on_chunk});
    });
    files_->name_by(folder_);
  }

  SourceInfo info() const override {
    const dcp::Metadata& metadata = folder_->metadata();
    SourceInfo info{.format = form_.row.name,
                    .description = form_.description,
                    .writer = manifest_.writer(),
                    .bytes = bytes(),
                    .notes = {{"items", std::to_string(metadata.items.size())},
                              {"data files", std::to_string(folder_->data_files())}}};
    if (&form_ == &kPickled && folder_->has_plain_tensors()) {
      info.notes.emplace_back("tensors", "as safetensors, inside the data files");
    }
    if (!metadata.version.empty()) info.notes.emplace_back("version", metadata.version);
    if (!manifest_.newer().empty()) info.notes.emplace_back("checksums", manifest_.newer());
    return info;
  }

  Value read() const override {
    if (is_verified()) check_metadata();
    if (auto known = known_tree()) return *known;
    Value tree = in_folder(path_, [&] { return folder_->read(); });
    keep(tree);
    return tree;
  }

  std::string content() const override { return manifest_.content(); }

  VerifyReport check(PendingReads& reads, Verify how) const override {
    VerifyReport report;
    report.bytes = bytes();
    // Storages that have to be made, and plain tensors, have no checksums of their own.
    const bool needs_full_check = reads.has_storages_to_make() || folder_->has_plain_tensors();
    if (how == Verify::kWhatIsRead && needs_full_check) how = Verify::kFull;
    manifest_.verify(how, on_progress_, reads, report);
    report.has_manifest = manifest_.has_manifest();
    // The records of files that match the manifest are not checked again. Other files' records are
    // checked, so that the report names the tensors.
    const bool is_known = how == Verify::kFull && report.has_manifest && report.ok();
    const bool checks_all = how == Verify::kFull || (how == Verify::kQuick && reads.empty());
    const auto data_file = [&](std::string_view name) -> const VerifiedSource& {
      return *files_->open(std::string(name));
    };
    in_folder(path_, [&] {
      auto tree = verify_dcp(*folder_,
                             {.how = is_known ? Verify::kQuick : how,
                              .scope = checks_all ? Scope::kAll : Scope::kWhatIsRead,
                              .on_progress = on_progress_,
                              .data_file = data_file},
                             reads, report);
      if (tree) keep(*std::move(tree));
    });
    return report;
  }

 private:
  bool is_verified() const { return access_ == Access::kVerified; }
  // Throws unless the metadata matches the manifest.
  void check_metadata() const {
    PendingReads none({});
    VerifyReport report;
    manifest_.verify(Verify::kQuick, nullptr, none, report);
    check_whole(report, path_);
  }

  std::optional<Value> known_tree() const {
    const std::scoped_lock lock(mutex_);
    return tree_;
  }
  void keep(Value tree) const {
    const std::scoped_lock lock(mutex_);
    if (!tree_) tree_ = std::move(tree);
  }

  std::uint64_t bytes() const {
    std::uint64_t bytes = folder_->bytes() + manifest_.bytes();
    for (const SharedBytes& file : folder_->metadata().files) {
      bytes += file.view.size();
    }
    return bytes;
  }

  std::string path_;
  std::function<void(std::uint64_t)> on_progress_;
  Access access_;
  const DcpForm& form_;
  const std::shared_ptr<FolderFiles> files_;  // folder_ uses them, too
  ManifestCheck manifest_;
  std::shared_ptr<const dcp::Folder> folder_;
  // The tree that was read or verified, so that Checkpoint's verify(), info() and load() make it
  // only once. The tree takes a few hundred bytes for each tensor. An item that is no tensor takes
  // up to 14 bytes of memory for each of its bytes in the file.
  mutable std::mutex mutex_;
  mutable std::optional<Value> tree_;
};

bool is_dcp(const Candidate& candidate) {
  if (!candidate.is_folder) return false;
  const auto names = list_names(*candidate.store, candidate.path);
  return std::any_of(names.begin(), names.end(), is_dcp_name);
}

// By value, like the functions of all rows. NOLINTNEXTLINE(performance-unnecessary-value-param)
std::unique_ptr<CheckpointSource> open_dcp(Candidate candidate) {
  return std::make_unique<DcpSource>(candidate, kPickled);
}

bool is_dcp_safetensors(const Candidate& candidate) {
  return candidate.is_folder && !shard_names(list_names(*candidate.store, candidate.path)).empty();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
std::unique_ptr<CheckpointSource> open_dcp_safetensors(Candidate candidate) {
  return std::make_unique<DcpSource>(candidate, kSafetensors);
}

}  // namespace

constinit const FormatRow kDcpFormat = {.name = "dcp", .matches = is_dcp, .open = open_dcp};
constinit const FormatRow kDcpSafetensorsFormat = {
    .name = "dcp_safetensors", .matches = is_dcp_safetensors, .open = open_dcp_safetensors};

}  // namespace cairn

// torch.distributed.checkpoint's folders, of both forms, as a CheckpointSource.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/open/candidate.h"
#include "checkpoint/open/verify_dcp.h"
#include "checkpoint/plan/folder_manifest.h"
#include "core/xxh3.h"
#include "format/dcp/folder.h"
#include "format/dcp/safetensors_files.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

constexpr std::string_view kMetadata = ".metadata";
constexpr std::string_view kData = ".distcp";

// N of "__N.metadata": what each rank writes for itself without collectives.
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

dcp::Metadata parse_file(ObjectStore& store, const std::string& folder, const std::string& name) {
  try {
    return dcp::parse_metadata(read_all(store, join_path(folder, name)));
  } catch (const CorruptError& e) {
    throw CorruptError(name + ": " + e.what(), name, e.offset());
  } catch (UnsupportedError& e) {
    e.add_context(name);
    throw;
  }
}

dcp::Metadata read_metadata(ObjectStore& store, const std::string& folder) {
  const std::vector<std::string> names = list_names(store, folder);
  if (std::find(names.begin(), names.end(), kMetadata) != names.end()) {
    return parse_file(store, folder, std::string(kMetadata));
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
    metadata.push_back(parse_file(store, folder, name));
  }
  return dcp::merge_metadata(std::move(metadata));
}

// Runs `work`; its errors name the folder.
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

std::vector<std::string> shard_names(const Candidate& candidate) {
  std::vector<std::string> names = list_names(*candidate.store, candidate.path);
  std::erase_if(names, [](const std::string& name) { return !dcp::is_shard_name(name); });
  return names;
}

dcp::Metadata read_shards(const Candidate& candidate) {
  std::vector<std::pair<std::string, SharedBytes>> files;
  for (const std::string& name : shard_names(candidate)) {
    files.emplace_back(name, read_all(*candidate.store, join_path(candidate.path, name)));
  }
  return dcp::metadata_of_shards(files);
}

struct DcpForm {
  const char* format;
  const char* description;
  dcp::Metadata (*read_metadata)(const Candidate&);
};
constexpr DcpForm kPickled = {
    "dcp", "a torch.distributed.checkpoint folder",
    [](const Candidate& candidate) { return read_metadata(*candidate.store, candidate.path); }};
constexpr DcpForm kSafetensors = {
    "dcp_safetensors", "a torch.distributed.checkpoint folder in safetensors form", read_shards};

// The folder's manifest and the files that it lists.
class ManifestCheck {
 public:
  ManifestCheck(ObjectStore& store, const std::string& folder) {
    const std::string path = join_path(folder, kFolderManifest);
    if (!store.stat(path)) return;
    text_ = read_all(store, path);
    try {
      manifest_ = parse_folder_manifest(as_text(text_.view));
    } catch (const CorruptError& e) {
      problem_ = e.what();
      return;
    } catch (const UnsupportedError&) {  // a newer cairn's: the folder is whole without it
      return;
    }
    for (const ManifestFile& file : manifest_->files) {
      const std::string listed = join_path(folder, file.name);
      const auto info = store.stat(listed);
      const bool is_there = info && info->type == ObjectInfo::Type::kObject;
      contents_.push_back(is_there ? read_all(store, listed) : SharedBytes{});
      // Files of other sizes are others: PyTorch has saved into the folder. If they are damaged,
      // their own structure says so.
      if (contents_.back().view.size() != file.bytes) manifest_.reset();
      if (!manifest_) return;
    }
  }

  std::uint64_t bytes() const { return text_.view.size(); }
  std::string writer() const { return manifest_ ? manifest_->writer : "PyTorch"; }
  bool has_said_something() const { return manifest_.has_value() || !problem_.empty(); }

  // Adds what differs; of data files with Verify::kFull only.
  void verify(Verify how, const std::function<void(std::uint64_t)>& on_progress,
              VerifyReport& report) const {
    if (!problem_.empty()) {
      report.damage.push_back(
          {.what = problem_, .record = kFolderManifest, .begin = 0, .end = bytes()});
    }
    for (std::size_t i = 0; manifest_ && i < contents_.size(); ++i) {
      const ManifestFile& file = manifest_->files[i];
      if (how == Verify::kQuick && file.name != kMetadata) continue;
      const std::string found = digest(contents_[i], on_progress);
      if (found == file.xxh3_128) continue;
      report.damage.push_back(
          {.what = "its XXH3-128 is " + found + ", but " + file.xxh3_128 + " was written",
           .record = file.name,
           .begin = 0,
           .end = file.bytes});
    }
  }

 private:
  static std::string digest(const SharedBytes& bytes,
                            const std::function<void(std::uint64_t)>& on_progress) {
    constexpr std::uint64_t kDigestPieceBytes = std::uint64_t{4} << 20;
    Xxh3 hash;
    const std::uint64_t size = bytes.view.size();
    for (std::uint64_t done = 0; done < size; done += kDigestPieceBytes) {
      const SharedBytes piece = bytes.part(done, std::min(kDigestPieceBytes, size - done));
      hash.write(piece.view);
      piece.release(piece.view);
      if (on_progress) on_progress(piece.view.size());
    }
    return hash.digest128();
  }

  SharedBytes text_;
  std::string problem_;
  std::optional<FolderManifest> manifest_;
  std::vector<SharedBytes> contents_;
};

class DcpSource final : public CheckpointSource {
 public:
  DcpSource(Candidate candidate, const DcpForm& form)
      : path_(candidate.path),
        on_progress_(candidate.on_progress),
        form_(form),
        manifest_(*candidate.store, candidate.path) {
    folder_ = in_folder(path_, [&] {
      return dcp::Folder::open(
          form.read_metadata(candidate),
          [&](const std::string& name) {
            return read_all(*candidate.store, join_path(path_, name));
          },
          candidate.scratch_folder);
    });
  }

  SourceInfo info() const override {
    const dcp::Metadata& metadata = folder_->metadata();
    SourceInfo info{.format = form_.format,
                    .description = form_.description,
                    .writer = manifest_.writer(),
                    .bytes = bytes(),
                    .notes = {{"items", std::to_string(metadata.items.size())},
                              {"data files", std::to_string(folder_->data_files())}}};
    if (form_.format == kPickled.format && folder_->has_plain_tensors()) {
      info.notes.emplace_back("tensors", "as safetensors, inside the data files");
    }
    if (!metadata.version.empty()) info.notes.emplace_back("version", metadata.version);
    return info;
  }

  Value read() const override {
    return in_folder(path_, [&] { return folder_->read(); });
  }

  VerifyReport verify(Verify how) const override {
    VerifyReport report;
    report.bytes = bytes();
    manifest_.verify(how, on_progress_, report);
    report.has_manifest = manifest_.has_said_something();
    // Files that are what was written need no second look at their records; others do, so that the
    // tensors are named.
    const bool is_known = report.has_manifest && report.ok();
    in_folder(path_,
              [&] { verify_dcp(*folder_, is_known ? Verify::kQuick : how, on_progress_, report); });
    return report;
  }

 private:
  std::uint64_t bytes() const {
    std::uint64_t bytes = folder_->bytes() + manifest_.bytes();
    for (const SharedBytes& file : folder_->metadata().files) {
      bytes += file.view.size();
    }
    return bytes;
  }

  std::string path_;
  std::function<void(std::uint64_t)> on_progress_;
  const DcpForm& form_;
  ManifestCheck manifest_;
  std::shared_ptr<const dcp::Folder> folder_;
};

}  // namespace

bool is_dcp(const Candidate& candidate) {
  if (!candidate.is_folder) return false;
  const auto names = list_names(*candidate.store, candidate.path);
  return std::any_of(names.begin(), names.end(), is_dcp_name);
}

std::unique_ptr<CheckpointSource> open_dcp(Candidate candidate) {
  return std::make_unique<DcpSource>(std::move(candidate), kPickled);
}

bool is_dcp_safetensors(const Candidate& candidate) {
  return candidate.is_folder && !shard_names(candidate).empty();
}

std::unique_ptr<CheckpointSource> open_dcp_safetensors(Candidate candidate) {
  return std::make_unique<DcpSource>(std::move(candidate), kSafetensors);
}

}  // namespace cairn

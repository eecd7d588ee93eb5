// safetensors files as a CheckpointSource.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "checkpoint/open/formats/candidate.h"
#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/verify/check_records.h"
#include "checkpoint/open/verify/check_whole.h"
#include "checkpoint/open/verify/verified_source.h"
#include "checkpoint/plan/named_tensors.h"
#include "format/dcp/safetensors_files.h"
#include "format/safetensors/checksums.h"
#include "format/safetensors/header.h"
#include "format/safetensors/ties.h"
#include "io/file.h"

namespace cairn {
namespace {

// The offset of each tensor, and the XXH3-64 of its bytes when they were written.
using HashesByOffset = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// The name of the tensor at `offset`; empty if the file has no tensor at this offset any more.
std::string tensor_at(const std::shared_ptr<const ByteSource>& source, std::uint64_t offset) {
  const SafetensorsFile file(source);
  const auto found = std::ranges::find_if(file.entries(), [&](const SafetensorsEntry& entry) {
    return entry.offset == offset && entry.size > 0;
  });
  return found == file.entries().end() ? std::string() : found->name;
}

// The VerifiedSource::Check of a file.
void check_tensors(const std::shared_ptr<const ByteSource>& source, const HashesByOffset& expected,
                   const CheckedRead& read, const std::vector<FileRecord>& tensors,
                   VerifyReport& report) {
  std::vector<std::uint64_t> found(tensors.size());
  for_each_xxh3(read, tensors,
                [&](std::size_t i, const Xxh3& hash) { found[i] = hash.digest64(); });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const FileRecord& tensor = tensors[i];
    const auto written =
        std::ranges::lower_bound(expected, tensor.offset, {}, &HashesByOffset::value_type::first);
    if (found[i] == written->second) continue;
    report.damage.push_back(
        {.what = fmt::format("the XXH3-64 of its bytes is {:016x}, but {:016x} was written",
                             found[i], written->second),
         .record = "data",
         .tensors = {tensor_at(source, tensor.offset)},
         .begin = tensor.offset,
         .end = tensor.offset + tensor.size});
  }
}

class SafetensorsSource final : public CheckpointSource {
 public:
  explicit SafetensorsSource(Candidate candidate)
      : path_(candidate.path),
        stored_bytes_(candidate.stored_bytes),
        bytes_(candidate.source->size()),
        containers_(std::move(candidate.containers)),
        on_progress_(std::move(candidate.on_progress)),
        access_(candidate.access),
        source_(std::move(candidate.source)),
        hashes_(std::make_shared<HashesByOffset>()),
        tensors_(std::make_shared<const VerifiedSource>(
            source_,
            [source = source_, hashes = hashes_](const auto& read, const auto& records,
                                                 VerifyReport& report) {
              check_tensors(source, *hashes, read, records, report);
            })),
        file_(source_, tensors_),
        ties_(safetensors::find_ties(file_)) {}

  const SafetensorsFile& file() const { return file_; }

  SourceInfo info() const override {
    SourceInfo info{.format = kSafetensorsFormat.name,
                    .description = "a safetensors file",
                    .containers = containers_,
                    .bytes = stored_bytes_,
                    .tied = ties_};
    for (const auto& note : safetensors::without_ties(file_.metadata(), ties_)) {
      const bool is_layout =
          safetensors::is_checksum_key(note.first) || note.first == dcp::kShardingKey;
      if (!is_layout) info.notes.push_back(note);
    }
    if (const auto* writer = file_.find_metadata(safetensors::kWriterKey)) info.writer = *writer;
    return info;
  }
  std::uint64_t expanded_bytes() const override { return bytes_; }

  Value read() const override {
    if (access_ == Access::kVerified) {
      VerifyReport report;
      check_header(report);
      check_whole(report, path_);
    }
    return with_tied(file_.read(), ties_);
  }

  // Opening the file has checked everything that the format itself can show. check() checks the
  // checksums that cairn adds.
  VerifyReport check(PendingReads& reads, Verify how) const override {
    VerifyReport report;
    report.records = file_.entries().size();
    report.bytes = bytes_;
    check_header(report);
    if (!report.has_checksums || !report.ok() || how == Verify::kQuick) return report;
    CheckedRead read{
        .file = *source_, .on_progress = on_progress_, .places = reads.take(*tensors_)};
    std::vector<FileRecord> tensors;
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (entry.size > 0) tensors.push_back({entry.name, entry.offset, entry.size});
    }
    if (how == Verify::kWhatIsRead) tensors = wanted(tensors, read.places);
    tensors_->check(read, tensors, report);
    return report;
  }

 private:
  // Checks the header by its own checksum. After this check, the checksums in the header can verify
  // the tensors.
  void check_header(VerifyReport& report) const {
    const auto& checksums = read_checksums();
    report.has_checksums = checksums.has_value();
    report.has_manifest = checksums.has_value();
    if (!checksums || checksums->problem.empty()) return;
    report.damage.push_back(
        {.what = checksums->problem, .begin = 0, .end = file_.header().view.size()});
  }

  const std::optional<safetensors::Checksums>& read_checksums() const {
    std::call_once(is_read_, [&] {
      checksums_ = safetensors::find_checksums(file_, file_.header().view);
      if (!checksums_ || !checksums_->problem.empty()) return;
      std::vector<FileRecord> tensors;
      for (const SafetensorsEntry& entry : file_.entries()) {
        if (entry.size == 0) continue;
        hashes_->emplace_back(entry.offset, checksums_->of_parts[hashes_->size()]);
        tensors.push_back({.name = {}, .offset = entry.offset, .size = entry.size});
      }
      if (access_ == Access::kVerified) tensors_->add(tensors);
    });
    return checksums_;
  }

  std::string path_;
  std::uint64_t stored_bytes_;
  std::uint64_t bytes_;
  std::vector<std::string> containers_;
  std::function<void(std::uint64_t)> on_progress_;
  Access access_;
  std::shared_ptr<const ByteSource> source_;
  std::shared_ptr<HashesByOffset> hashes_;  // filled by read_checksums()
  std::shared_ptr<const VerifiedSource> tensors_;
  SafetensorsFile file_;
  safetensors::Ties ties_;
  mutable std::once_flag is_read_;
  mutable std::optional<safetensors::Checksums> checksums_;
};

bool is_safetensors(const Candidate& candidate) {
  return !candidate.is_folder && safetensors::has_header(candidate.start.view);
}

// Throws UnsupportedError for a file with parts of tensors from torch.distributed.checkpoint: such
// a file alone is not a checkpoint.
void refuse_part(const SafetensorsFile& file, const std::string& path) {
  if (file.find_metadata(dcp::kShardingKey) == nullptr) return;
  const std::string name = base_name(path);
  if (dcp::is_shard_name(name) || name.ends_with(".distcp")) {
    throw UnsupportedError(path +
                           ": this is one rank's shard of a torch.distributed.checkpoint folder "
                           "with tensors as safetensors; name the folder, which has all of them");
  }
  bool is_part = false;
  try {
    is_part = dcp::has_nonzero_offsets(file);
  } catch (const CorruptError& e) {
    throw CorruptError(path + ": " + e.what(), path, e.offset());
  }
  if (!is_part) return;
  throw UnsupportedError(
      path +
      ": it has only one rank's parts of its tensors. Files of all ranks are named "
      "shard-00001-..., and their folder is read as one checkpoint.\nPyTorch's "
      "HuggingFaceStorageWriter writes such a folder with save_distributed=True. Without it, "
      "several processes overwrite one another's files");
}

std::unique_ptr<CheckpointSource> open_safetensors(Candidate candidate) {
  const std::string path = candidate.path;
  auto source = std::make_unique<SafetensorsSource>(std::move(candidate));
  refuse_part(source->file(), path);
  return source;
}

}  // namespace

constinit const FormatRow kSafetensorsFormat = {
    .name = "safetensors", .matches = is_safetensors, .open = open_safetensors};

}  // namespace cairn

// safetensors files as a CheckpointSource.
#include <fmt/format.h>

#include <unordered_map>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "checkpoint/open/candidate.h"
#include "checkpoint/open/check_records.h"
#include "checkpoint/open/read_storages.h"
#include "format/dcp/safetensors_files.h"
#include "format/safetensors/checksums.h"
#include "format/safetensors/header.h"
#include "io/file.h"

namespace cairn {
namespace {

class SafetensorsSource final : public CheckpointSource {
 public:
  explicit SafetensorsSource(Candidate candidate)
      : stored_bytes_(candidate.stored_bytes),
        bytes_(candidate.source->size()),
        containers_(std::move(candidate.containers)),
        on_progress_(std::move(candidate.on_progress)),
        source_(std::move(candidate.source)),
        file_(source_) {}

  const SafetensorsFile& file() const { return file_; }

  SourceInfo info() const override {
    SourceInfo info{.format = "safetensors",
                    .description = "a safetensors file",
                    .containers = containers_,
                    .bytes = stored_bytes_};
    for (const auto& note : file_.metadata()) {
      const bool is_layout =
          safetensors::is_checksum_key(note.first) || note.first == dcp::kShardingKey;
      if (!is_layout) info.notes.push_back(note);
    }
    if (const auto* writer = file_.find_metadata(safetensors::kWriterKey)) info.writer = *writer;
    return info;
  }
  Value read() const override { return file_.read(); }

  // Opening has checked all that the format can tell; the rest are the checksums that cairn adds.
  VerifyReport check(PendingReads& reads, Verify how) const override {
    VerifyReport report;
    report.records = file_.entries().size();
    report.bytes = bytes_;
    const SharedBytes header = file_.header();
    const std::uint64_t data = header.view.size();
    const auto checksums = safetensors::find_checksums(file_, header.view);
    report.has_checksums = checksums.has_value();
    report.has_manifest = checksums.has_value();
    const bool has_problem = checksums && !checksums->problem.empty();
    if (has_problem) {
      report.damage.push_back({.what = checksums->problem, .begin = 0, .end = data});
    }
    if (checksums && !has_problem && how != Verify::kQuick) {
      check_tensors(checksums->of_parts, how, reads, report);
    }
    return report;
  }

 private:
  // All of them; with kWhatIsRead those of which something is wanted.
  void check_tensors(const std::vector<std::uint64_t>& expected, Verify how, PendingReads& reads,
                     VerifyReport& report) const {
    std::vector<FileRecord> entries;
    std::unordered_map<std::uint64_t, std::uint64_t> expected_at;
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (entry.size == 0) continue;
      expected_at.emplace(entry.offset, expected[entries.size()]);
      entries.push_back({entry.name, entry.offset, entry.size});
    }
    const CheckedRead read{
        .file = *source_, .on_progress = on_progress_, .places = reads.take(*source_)};
    if (how == Verify::kWhatIsRead) entries = wanted(entries, read.places);
    std::vector<std::uint64_t> found(entries.size());
    for_each_xxh3(read, entries,
                  [&](std::size_t i, const Xxh3& hash) { found[i] = hash.digest64(); });
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::uint64_t written = expected_at.at(entries[i].offset);
      if (found[i] == written) continue;
      report.damage.push_back({.what = fmt::format("the XXH3-64 of its bytes is {:016x}, but "
                                                   "{:016x} was written",
                                                   found[i], written),
                               .record = "data",
                               .tensors = {entries[i].name},
                               .begin = entries[i].offset,
                               .end = entries[i].offset + entries[i].size});
    }
  }

  std::uint64_t stored_bytes_;
  std::uint64_t bytes_;
  std::vector<std::string> containers_;
  std::function<void(std::uint64_t)> on_progress_;
  std::shared_ptr<const ByteSource> source_;
  SafetensorsFile file_;
};

}  // namespace

bool is_safetensors(const Candidate& candidate) {
  return !candidate.is_folder && safetensors::has_header(candidate.start.view);
}

namespace {

// What torch.distributed.checkpoint cut tensors into is no checkpoint by itself.
void check_whole(const SafetensorsFile& file, const std::string& path) {
  if (file.find_metadata(dcp::kShardingKey) == nullptr) return;
  const std::string name = base_name(path);
  if (dcp::is_shard_name(name) || name.ends_with(".distcp")) {
    throw UnsupportedError(path +
                           ": this is one rank's shard of a torch.distributed.checkpoint folder "
                           "with tensors as safetensors; name the folder, which has all of them");
  }
  bool is_part = false;
  try {
    is_part = dcp::begins_inside(file);
  } catch (const CorruptError& e) {
    throw CorruptError(path + ": " + e.what(), path, e.offset());
  }
  if (!is_part) return;
  throw UnsupportedError(
      path +
      ": it has only one rank's parts of its tensors. Files of all ranks are named "
      "shard-00001-..., "
      "and their folder is read as one; PyTorch's HuggingFaceStorageWriter writes them with "
      "save_distributed=True, without it several processes save over one another");
}

}  // namespace

std::unique_ptr<CheckpointSource> open_safetensors(Candidate candidate) {
  const std::string path = candidate.path;
  auto source = std::make_unique<SafetensorsSource>(std::move(candidate));
  check_whole(source->file(), path);
  return source;
}

}  // namespace cairn

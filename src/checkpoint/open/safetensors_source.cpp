// safetensors files as a CheckpointSource.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "checkpoint/open/candidate.h"
#include "checkpoint/open/read_storages.h"
#include "core/xxh3.h"
#include "format/dcp/safetensors_files.h"
#include "format/safetensors/checksums.h"
#include "format/safetensors/header.h"
#include "io/file.h"
#include "io/parallel.h"
#include "io/pieces.h"

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
  VerifyReport verify(Verify how) const override { return checked(how, {}); }

  VerifyReport read_into(const std::vector<StorageRead>& reads, Verify how) const override {
    Places places;
    std::unordered_map<std::uint64_t, std::uint64_t> sizes;
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (entry.size > 0) sizes.emplace(entry.offset, entry.size);
    }
    read_others(reads, [&](const StorageRead& read) {
      const std::uint64_t offset = read.storage->source_offset();
      const auto found = sizes.find(offset);
      return read.storage->source() == source_.get() && found != sizes.end() &&
             found->second == read.into.size() && places.emplace(offset, read.into).second;
    });
    return checked(how, places);
  }

 private:
  using Places = std::unordered_map<std::uint64_t, std::span<std::byte>>;  // by offset in the file

  // What verify() says, and the bytes in their places.
  VerifyReport checked(Verify how, const Places& places) const {
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
      check_tensors(checksums->of_parts, how, places, report);
    } else {
      fill(places);
    }
    return report;
  }

  void fill(const Places& places) const {
    std::vector<ByteSource::Range> ranges;
    for (const auto& [offset, into] : places) {
      ranges.push_back({offset, into});
    }
    source_->read(ranges);
  }

  // All of them; with kWhatIsRead those that have a place.
  void check_tensors(const std::vector<std::uint64_t>& expected, Verify how, const Places& places,
                     VerifyReport& report) const {
    std::vector<const SafetensorsEntry*> entries;
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (entry.size > 0) entries.push_back(&entry);
    }
    std::vector<std::uint64_t> found = expected;
    const auto look = [&](std::size_t i) {
      const auto place = places.find(entries[i]->offset);
      if (place == places.end() && how == Verify::kWhatIsRead) return;
      found[i] = hash(*entries[i], place == places.end() ? std::span<std::byte>() : place->second);
    };
    for_each_parallel(entries.size(), look, bytes_);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (found[i] == expected[i]) continue;
      report.damage.push_back({.what = fmt::format("the XXH3-64 of its bytes is {:016x}, but "
                                                   "{:016x} was written",
                                                   found[i], expected[i]),
                               .record = "data",
                               .tensors = {entries[i]->name},
                               .begin = entries[i]->offset,
                               .end = entries[i]->offset + entries[i]->size});
    }
  }

  // Of its bytes in `place`, where they are put, unless that is empty.
  std::uint64_t hash(const SafetensorsEntry& entry, std::span<std::byte> place) const {
    Xxh3 digest;
    const auto add = [&](ByteView piece) {
      digest.write(piece);
      if (on_progress_) on_progress_(piece.size());
    };
    if (place.empty()) {
      for_each_piece(*source_, entry.offset, entry.size, add);
    } else {
      read_pieces(*source_, entry.offset, place, add);
    }
    return digest.digest64();
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

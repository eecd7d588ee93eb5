// The zip files of torch.save as a CheckpointSource.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/open/formats/candidate.h"
#include "checkpoint/open/formats/torch_checkpoint.h"
#include "checkpoint/open/formats/weights.h"
#include "checkpoint/open/verify/check_whole.h"
#include "core/hash/xxh3.h"
#include "io/files/file_source.h"

namespace cairn {
namespace {

// Returns the version of PyTorch that wrote a torch.save file, as far as the file's records show.
// TorchScript archives have the same records in every version.
std::string torch_version(const TorchFile& file) {
  if (file.find_record(".format_version") != nullptr) return "2.7 or newer";
  if (file.find_record("byteorder") != nullptr) return "2.1 to 2.6";
  return "older than 2.1";
}

std::vector<std::pair<std::string, std::string>> notes_of(const TorchCheckpoint& checkpoint) {
  std::vector<std::pair<std::string, std::string>> notes;
  const TorchFile& file = checkpoint.file;
  const FileRecord& pickle = *file.find_record("data.pkl");
  const SharedBytes start =
      file.source().view(pickle.offset, std::min<std::uint64_t>(pickle.size, 2));
  if (start.view.size() > 1 && start.view[0] == std::byte{0x80}) {
    notes.emplace_back("pickle protocol", std::to_string(std::to_integer<int>(start.view[1])));
  }
  if (!checkpoint.manifest && !file.is_torchscript()) {
    notes.emplace_back("torch version", torch_version(file));
  }
  const std::size_t unchecked = file.records().size() - file.checked_records().size();
  if (!file.has_checksums()) {
    notes.emplace_back("checksums", "none: its writer left them out");
  } else if (unchecked > 0) {
    notes.emplace_back("checksums",
                       fmt::format("none of {} tensors: their writer made room for them "
                                   "(skip_data), which was filled later",
                                   unchecked));
  }
  return notes;
}

class TorchSource final : public CheckpointSource {
 public:
  explicit TorchSource(Candidate candidate)
      : stored_bytes_(candidate.stored_bytes),
        containers_(std::move(candidate.containers)),
        on_progress_(std::move(candidate.on_progress)),
        access_(candidate.access),
        checkpoint_(open_torch_checkpoint(candidate.source, access_)) {}

  SourceInfo info() const override {
    SourceInfo info{.format = kTorchZipFormat.name,
                    .description = "a torch.save file",
                    .containers = containers_,
                    .writer = "PyTorch",
                    .bytes = stored_bytes_,
                    .notes = notes_of(checkpoint_)};
    if (checkpoint_.file.is_torchscript()) {
      info.format = "torchscript";
      info.description = "a TorchScript archive (torch.jit.save or C++ torch::save)";
      info.notes.emplace_back("code",
                              "not run; only attributes are read, and which of them are weights");
    }
    if (checkpoint_.manifest) {
      info.writer = checkpoint_.manifest->writer;
      info.checkpoint = checkpoint_.manifest->info;
    }
    return info;
  }
  Value read() const override {
    check_described();
    return checkpoint_.file.read();
  }
  std::optional<Value> state_dict() const override {
    if (!checkpoint_.file.is_torchscript()) return std::nullopt;
    check_described();
    return script_state_dict(checkpoint_.file.read_script_weights());
  }
  std::uint64_t expanded_bytes() const override { return checkpoint_.source->size(); }
  std::string content() const override {
    if (!is_all_checked()) return {};
    Xxh3 hash;
    for (const FileRecord& record : checkpoint_.file.records()) {
      hash.write(as_bytes(fmt::format("{} {} {}\n", record.name, record.size, record.crc32)));
    }
    return hash.digest128();
  }
  std::shared_ptr<const ByteSource> whole_file() const override {
    const bool is_one = is_file_source(*checkpoint_.source) && is_all_checked();
    if (!is_one || checkpoint_.file.is_torchscript()) return nullptr;
    return checkpoint_.tensors;
  }
  VerifyReport check(PendingReads& reads, Verify how) const override {
    return verify_opened(checkpoint_, how, reads, on_progress_);
  }

 private:
  bool is_all_checked() const {
    const TorchFile& file = checkpoint_.file;
    return file.has_checksums() && file.checked_records().size() == file.records().size();
  }
  // Throws unless the records match the manifest.
  void check_described() const {
    if (access_ == Access::kRaw || checkpoint_.difference().empty()) return;
    VerifyReport report;
    report.damage.push_back({.what = checkpoint_.difference(), .end = checkpoint_.source->size()});
    check_whole(report, checkpoint_.path);
  }

  std::uint64_t stored_bytes_;
  std::vector<std::string> containers_;
  std::function<void(std::uint64_t)> on_progress_;
  Access access_;
  TorchCheckpoint checkpoint_;
};

bool is_torch_zip(const Candidate& candidate) {
  return as_text(candidate.start.view).starts_with("PK\x03\x04");
}

std::unique_ptr<CheckpointSource> open_torch_zip(Candidate candidate) {
  return std::make_unique<TorchSource>(std::move(candidate));
}

}  // namespace

constinit const FormatRow kTorchZipFormat = {
    .name = "torch_zip", .matches = is_torch_zip, .open = open_torch_zip};

}  // namespace cairn

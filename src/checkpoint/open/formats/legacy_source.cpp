// Files of torch.save from before PyTorch 1.6, as a CheckpointSource.
#include <algorithm>

#include "cairn/error.h"

#include "checkpoint/open/formats/candidate.h"
#include "format/legacy/legacy_file.h"
#include "io/bytes/source_part.h"

namespace cairn {
namespace {

class LegacySource final : public CheckpointSource {
 public:
  explicit LegacySource(Candidate candidate)
      : source_(std::move(candidate.source)),
        stored_bytes_(candidate.stored_bytes),
        containers_(std::move(candidate.containers)) {}

  SourceInfo info() const override {
    return {.format = kTorchLegacyFormat.name,
            .description = "a torch.save file in the legacy format (before PyTorch 1.6)",
            .containers = containers_,
            .writer = "PyTorch",
            .bytes = stored_bytes_};
  }

  Value read() const override { return read_legacy_object(source_).value; }
  std::uint64_t expanded_bytes() const override { return source_->size(); }

  // The file has no checksums. Checks that all objects of the file are whole, and that the last
  // object ends with the file.
  VerifyReport check(PendingReads&, Verify) const override {
    constexpr std::uint64_t kAheadBytes = std::uint64_t{256} << 10;
    VerifyReport report;
    report.bytes = source_->size();
    report.has_checksums = false;
    auto ahead = std::make_shared<Windows>(source_);  // there may be many small objects
    for (std::uint64_t at = 0; at < report.bytes; ++report.records) {
      if (!ahead->has(at, std::min(kAheadBytes / 2, report.bytes - at))) {
        ahead = std::make_shared<Windows>(source_);
        ahead->fetch({{at, kAheadBytes}});
      }
      if (at > 0 && !is_legacy_file(read_start_at(*ahead, at).view)) {
        report.damage.push_back(
            {.what = "bytes after the last object", .begin = at, .end = report.bytes});
        break;
      }
      at = read_legacy_object(ahead, at).end;
    }
    return report;
  }

 private:
  static SharedBytes read_start_at(const ByteSource& source, std::uint64_t at) {
    return read_bytes(source, at, std::min(kLegacyStartBytes, source.size() - at));
  }

  std::shared_ptr<const ByteSource> source_;
  std::uint64_t stored_bytes_;
  std::vector<std::string> containers_;
};

bool is_torch_legacy(const Candidate& candidate) { return is_legacy_file(candidate.start.view); }

std::unique_ptr<CheckpointSource> open_torch_legacy(Candidate candidate) {
  return std::make_unique<LegacySource>(std::move(candidate));
}

}  // namespace

constinit const FormatRow kTorchLegacyFormat = {
    .name = "torch_legacy", .matches = is_torch_legacy, .open = open_torch_legacy};

}  // namespace cairn

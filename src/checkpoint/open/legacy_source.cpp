// Files of torch.save before PyTorch 1.6 as a CheckpointSource.
#include "cairn/error.h"

#include "checkpoint/open/candidate.h"
#include "format/legacy/legacy_file.h"

namespace cairn {
namespace {

class LegacySource final : public CheckpointSource {
 public:
  explicit LegacySource(Candidate candidate) : candidate_(std::move(candidate)) {}

  SourceInfo info() const override {
    return {.format = "torch_legacy",
            .description = "a torch.save file in the legacy format (before PyTorch 1.6)",
            .containers = candidate_.containers,
            .writer = "PyTorch",
            .bytes = candidate_.stored_bytes};
  }

  Value read() const override { return read_at(0).value; }

  // There are no checksums: all objects of the file must be whole, and end with the file.
  VerifyReport verify(Verify) const override {
    VerifyReport report;
    report.bytes = candidate_.bytes.view.size();
    report.has_checksums = false;
    for (std::uint64_t at = 0; at < report.bytes; ++report.records) {
      const ByteView rest = candidate_.bytes.view.subspan(at);
      if (at > 0 && !is_legacy_file(rest)) {
        report.damage.push_back(
            {.what = "bytes after the last object", .begin = at, .end = report.bytes});
        break;
      }
      at = read_at(at).end;
    }
    return report;
  }

 private:
  LegacyObject read_at(std::uint64_t at) const {
    return read_legacy_object(candidate_.bytes, candidate_.path, at);
  }

  Candidate candidate_;
};

}  // namespace

bool is_torch_legacy(const Candidate& candidate) { return is_legacy_file(candidate.bytes.view); }

std::unique_ptr<CheckpointSource> open_torch_legacy(Candidate candidate) {
  return std::make_unique<LegacySource>(std::move(candidate));
}

}  // namespace cairn

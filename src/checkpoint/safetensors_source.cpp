// safetensors files as a CheckpointSource.
#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "checkpoint/candidate.h"
#include "format/safetensors/header.h"

namespace cairn {
namespace {

class SafetensorsSource final : public CheckpointSource {
 public:
  explicit SafetensorsSource(Candidate candidate)
      : stored_bytes_(candidate.stored_bytes),
        bytes_(candidate.bytes.view.size()),
        containers_(std::move(candidate.containers)),
        file_(std::move(candidate.bytes), candidate.path) {}

  const SafetensorsFile& file() const { return file_; }

  SourceInfo info() const override {
    return {.format = "safetensors",
            .description = "a safetensors file",
            .containers = containers_,
            .bytes = stored_bytes_,
            .notes = file_.metadata()};
  }
  Value read() const override { return file_.read(); }

  // Opening has checked all that can be: the format has no checksums.
  VerifyReport verify(Verify) const override {
    VerifyReport report;
    report.records = file_.entries().size();
    report.bytes = bytes_;
    report.has_checksums = false;
    return report;
  }

 private:
  std::uint64_t stored_bytes_;
  std::uint64_t bytes_;
  std::vector<std::string> containers_;
  SafetensorsFile file_;
};

}  // namespace

bool is_safetensors(const Candidate& candidate) {
  return !candidate.is_folder && safetensors::has_header(candidate.bytes.view);
}

std::unique_ptr<CheckpointSource> open_safetensors(Candidate candidate) {
  const std::string path = candidate.path;
  auto source = std::make_unique<SafetensorsSource>(std::move(candidate));
  if (source->file().find_metadata("DCP_SHARDING_INFO") != nullptr) {
    throw UnsupportedError(path +
                           ": this is one rank's shard of a torch.distributed.checkpoint folder "
                           "in safetensors form; name the folder, which has all of them");
  }
  return source;
}

}  // namespace cairn

// torch.save's zip files as a CheckpointSource.
#include "checkpoint/candidate.h"
#include "checkpoint/open_checkpoint.h"

namespace cairn {
namespace {

class TorchSource final : public CheckpointSource {
 public:
  explicit TorchSource(Candidate candidate)
      : stored_bytes_(candidate.stored_bytes),
        containers_(std::move(candidate.containers)),
        on_progress_(std::move(candidate.on_progress)),
        checkpoint_(open_checkpoint(std::move(candidate.bytes), candidate.path)) {}

  SourceInfo info() const override {
    SourceInfo info{.format = "torch_zip",
                    .description = "a torch.save file",
                    .containers = containers_,
                    .writer = "PyTorch",
                    .bytes = stored_bytes_};
    if (checkpoint_.manifest) {
      info.writer = checkpoint_.manifest->writer;
      info.checkpoint = checkpoint_.manifest->info;
    }
    return info;
  }
  Value read() const override { return checkpoint_.file.read(); }
  VerifyReport verify(Verify how) const override {
    return verify_opened(checkpoint_, {.how = how, .on_progress = on_progress_});
  }

 private:
  std::uint64_t stored_bytes_;
  std::vector<std::string> containers_;
  std::function<void(std::uint64_t)> on_progress_;
  OpenCheckpoint checkpoint_;
};

}  // namespace

bool is_torch_zip(const Candidate& candidate) {
  return as_text(candidate.bytes.view).starts_with("PK\x03\x04");
}

std::unique_ptr<CheckpointSource> open_torch_zip(Candidate candidate) {
  return std::make_unique<TorchSource>(std::move(candidate));
}

}  // namespace cairn

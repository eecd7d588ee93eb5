#include "checkpoint/open/guarded_source.h"

#include <utility>

#include "core/text/writer.h"

namespace cairn {
namespace {

class GuardedSource final : public CheckpointSource {
 public:
  GuardedSource(std::unique_ptr<CheckpointSource> source, std::string path)
      : source_(std::move(source)), path_(std::move(path)) {}

  SourceInfo info() const override {
    return guarded(path_, [&] { return source_->info(); });
  }
  Value read() const override {
    return guarded(path_, [&] {
      try {
        return source_->read();
      } catch (UnsupportedError& e) {
        if (const std::string writer = source_->info().writer; is_newer_cairn(writer)) {
          e.add_context("written by " + writer + ", which is newer than this " + kWriter);
        }
        throw;
      }
    });
  }
  std::optional<Value> state_dict() const override {
    return guarded(path_, [&] { return source_->state_dict(); });
  }
  std::string content() const override {
    return guarded(path_, [&] { return source_->content(); });
  }
  std::uint64_t expanded_bytes() const override {
    return guarded(path_, [&] { return source_->expanded_bytes(); });
  }
  std::shared_ptr<const ByteSource> whole_file() const override { return source_->whole_file(); }
  VerifyReport check(PendingReads& reads, Verify how) const override {
    return guarded(path_, [&] { return source_->check(reads, how); });
  }

 private:
  std::unique_ptr<CheckpointSource> source_;
  std::string path_;
};

}  // namespace

std::unique_ptr<CheckpointSource> guard_source(std::unique_ptr<CheckpointSource> source,
                                               const std::string& path) {
  return std::make_unique<GuardedSource>(std::move(source), path);
}

}  // namespace cairn

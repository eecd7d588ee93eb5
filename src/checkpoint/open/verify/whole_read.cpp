#include "checkpoint/open/verify/whole_read.h"

#include <utility>
#include <vector>

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/guarded_source.h"
#include "checkpoint/open/verify/verified_source.h"
#include "io/files/file_source.h"

namespace cairn {

std::shared_ptr<const ByteSource> WholeRead::file_of(const Checkpoint& checkpoint) {
  return Checkpoint::Impl::source_of(checkpoint).whole_file();
}

WholeRead::WholeRead(const Checkpoint& checkpoint, std::span<std::byte> place)
    : thread_([this, checkpoint, place] {
        const CheckpointSource& source = Checkpoint::Impl::source_of(checkpoint);
        try {
          const auto file = source.whole_file();
          const std::vector<StorageRead> reads = {{storage_of(file, 0, file->size()), place}};
          report_ = guarded(checkpoint.path(),
                            [&] { return source.read_into(reads, Verify::kFull, &ended_); });
        } catch (...) {
          error_ = std::current_exception();
        }
      }) {}

WholeRead::~WholeRead() { ended_ = true; }

VerifyReport WholeRead::finish() {
  thread_.join();
  if (error_) std::rethrow_exception(error_);
  return std::move(*report_);
}

CacheAhead::CacheAhead(std::shared_ptr<const ByteSource> file)
    : thread_([this, source = std::move(file)] {
        bring_into_page_cache(source->unverified(), ended_);
      }) {}

CacheAhead::~CacheAhead() { ended_ = true; }

}  // namespace cairn

#include "storage/trackers/tree/spooled_write.h"

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr std::uint64_t kInMemory = std::uint64_t{8} << 20;

}  // namespace

SpooledWrite::SpooledWrite(What what, Send send)
    : what_(std::move(what)),
      send_(std::move(send)),
      kept_({.most_in_memory = kInMemory, .expected_bytes = what_.expected_bytes}) {
  check_size(what_.expected_bytes);
}

void SpooledWrite::check_size(std::uint64_t bytes) const {
  if (bytes <= what_.most_bytes) return;
  throw UsageError(what_.name + " cannot be written: it has at least " + std::to_string(bytes) +
                   " bytes, and this server takes " + std::to_string(what_.most_bytes) +
                   " with one request. Keep it in a bucket, or save it in shards");
}

void SpooledWrite::write(ByteView bytes) {
  check_size(size_ + bytes.size());
  size_ += bytes.size();
  kept_.write(bytes);
}

void SpooledWrite::publish() { send_(kept_.take()); }

}  // namespace cairn

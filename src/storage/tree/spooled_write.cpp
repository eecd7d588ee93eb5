#include "storage/tree/spooled_write.h"

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr std::uint64_t kInMemory = std::uint64_t{8} << 20;

}  // namespace

SpooledWrite::SpooledWrite(What what, Send send) : what_(std::move(what)), send_(std::move(send)) {
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
  if (!file_ && size_ <= kInMemory) {
    small_.insert(small_.end(), bytes.begin(), bytes.end());
    return;
  }
  if (!file_) {
    file_.emplace();
    file_->write(small_);
    small_ = {};
  }
  file_->write(bytes);
}

void SpooledWrite::publish() {
  if (file_) return send_(file_->map());
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(small_));
  send_({*kept, kept});
}

}  // namespace cairn

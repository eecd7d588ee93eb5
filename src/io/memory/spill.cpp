#include "io/memory/spill.h"

#include <utility>

namespace cairn {

SpillSink::SpillSink(Options options) : options_(std::move(options)) {
  if (options_.expected_bytes > options_.most_in_memory) {
    file_.emplace(options_.scratch_folder);
  } else {
    small_->reserve(options_.expected_bytes);
  }
}

void SpillSink::write(ByteView bytes) {
  if (!file_ && bytes.size() > options_.most_in_memory - small_->size()) {
    file_.emplace(options_.scratch_folder);
    file_->write(*small_);
    small_ = nullptr;
  }
  if (file_) return file_->write(bytes);
  small_->insert(small_->end(), bytes.begin(), bytes.end());
}

SharedBytes SpillSink::take() {
  if (file_) return file_->map();
  return {ByteView(*small_), std::move(small_)};
}

SharedBytes spill(std::uint64_t size, const std::string& scratch_folder,
                  const std::function<void(ByteSink& sink)>& write) {
  SpillSink sink({.expected_bytes = size, .scratch_folder = scratch_folder});
  write(sink);
  return sink.take();
}

}  // namespace cairn

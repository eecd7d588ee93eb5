#include "io/windows.h"

#include <algorithm>

namespace cairn {

Windows::Windows(std::shared_ptr<const ByteSource> under) : under_(std::move(under)) {
  if (const auto* windows = dynamic_cast<const Windows*>(under_.get()))
    windows_ = windows->windows_;
}

void Windows::add(std::uint64_t offset, SharedBytes bytes) {
  windows_.push_back({offset, std::move(bytes)});
}

bool Windows::has(std::uint64_t offset, std::uint64_t bytes) const {
  return in_memory() || find(offset, bytes) != nullptr;
}

void Windows::fetch(std::vector<Extent> extents) {
  if (under_->in_memory()) return;
  std::vector<Range> ranges;
  std::vector<Window> fetched;
  for (Extent extent : extents) {
    extent.offset = std::min(extent.offset, size());
    extent.size = std::min(extent.size, size() - extent.offset);
    if (extent.size == 0 || find(extent.offset, extent.size) != nullptr) continue;
    const auto buffer = std::make_shared<std::vector<std::byte>>(extent.size);
    ranges.push_back({extent.offset, *buffer});
    fetched.push_back({extent.offset, {ByteView(*buffer), buffer}});
  }
  if (ranges.empty()) return;
  under_->read(ranges);
  windows_.insert(windows_.end(), fetched.begin(), fetched.end());
}

const Windows::Window* Windows::find(std::uint64_t offset, std::uint64_t bytes) const {
  const auto found = std::find_if(windows_.begin(), windows_.end(), [&](const Window& window) {
    const std::uint64_t end = window.offset + window.bytes.view.size();
    return offset >= window.offset && offset <= end && bytes <= end - offset;
  });
  return found == windows_.end() ? nullptr : &*found;
}

void Windows::take(const Range& range, std::vector<Range>& others) const {
  const std::uint64_t end = range.offset + range.into.size();
  for (const Window& window : windows_) {
    const std::uint64_t from = std::max(range.offset, window.offset);
    const std::uint64_t to = std::min(end, window.offset + window.bytes.view.size());
    if (from >= to) continue;
    const ByteView known = window.bytes.view.subspan(from - window.offset, to - from);
    std::copy(known.begin(), known.end(), range.into.subspan(from - range.offset).begin());
    if (range.offset < from) {
      take({range.offset, range.into.first(from - range.offset)}, others);
    }
    if (to < end) take({to, range.into.subspan(to - range.offset)}, others);
    return;
  }
  if (!range.into.empty()) others.push_back(range);
}

void Windows::read(std::span<const Range> ranges) const {
  std::vector<Range> others;
  for (const Range& range : ranges) {
    check_range(range.offset, range.into.size());
    take(range, others);
  }
  if (!others.empty()) under_->read(others);
}

SharedBytes Windows::view(std::uint64_t offset, std::uint64_t bytes) const {
  const Window* window = find(offset, bytes);
  if (window == nullptr) return under_->view(offset, bytes);
  return window->bytes.part(offset - window->offset, bytes);
}

}  // namespace cairn

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

void Windows::split(std::uint64_t offset, std::uint64_t size, auto&& known, auto&& other) const {
  std::vector<Extent> left = {{offset, size}};
  for (const Window& window : windows_) {
    const std::uint64_t window_end = window.offset + window.bytes.view.size();
    std::vector<Extent> still;
    for (const Extent& extent : left) {
      const std::uint64_t end = extent.offset + extent.size;
      const std::uint64_t from = std::max(extent.offset, window.offset);
      const std::uint64_t to = std::min(end, window_end);
      if (from >= to) {
        still.push_back(extent);
        continue;
      }
      known(from - offset, window.bytes.view.subspan(from - window.offset, to - from));
      if (extent.offset < from) still.push_back({extent.offset, from - extent.offset});
      if (to < end) still.push_back({to, end - to});
    }
    left = std::move(still);
  }
  for (const Extent& extent : left) {
    if (extent.size > 0) other(extent.offset - offset, extent.size);
  }
}

void Windows::read(std::span<const Range> ranges) const {
  std::vector<Range> others;
  for (const Range& range : ranges) {
    check_range(range.offset, range.into.size());
    split(
        range.offset, range.into.size(),
        [&](std::uint64_t begin, ByteView bytes) {
          std::copy(bytes.begin(), bytes.end(), range.into.subspan(begin).begin());
        },
        [&](std::uint64_t begin, std::uint64_t size) {
          others.push_back({range.offset + begin, range.into.subspan(begin, size)});
        });
  }
  if (!others.empty()) under_->read(others);
}

void Windows::read_each(std::span<const Part> parts, const Look& look) const {
  struct Origin {
    std::size_t part;
    std::uint64_t begin;
  };
  std::vector<Part> others;
  std::vector<Origin> origins;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    check_range(part.offset, part.size);
    split(
        part.offset, part.size,
        [&](std::uint64_t begin, ByteView bytes) {
          if (!part.into.empty()) {
            const std::span<std::byte> into = part.into.subspan(begin, bytes.size());
            std::copy(bytes.begin(), bytes.end(), into.begin());
            bytes = into;
          }
          look(i, begin, bytes);
        },
        [&](std::uint64_t begin, std::uint64_t size) {
          const auto into = part.into.empty() ? part.into : part.into.subspan(begin, size);
          others.push_back({part.offset + begin, size, into});
          origins.push_back({i, begin});
        });
  }
  if (others.empty()) return;
  under_->read_each(others, [&](std::size_t i, std::uint64_t begin, ByteView bytes) {
    look(origins[i].part, origins[i].begin + begin, bytes);
  });
}

SharedBytes Windows::view(std::uint64_t offset, std::uint64_t bytes) const {
  const Window* window = find(offset, bytes);
  if (window == nullptr) return under_->view(offset, bytes);
  return window->bytes.part(offset - window->offset, bytes);
}

}  // namespace cairn

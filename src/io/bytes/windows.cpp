#include "io/bytes/windows.h"

#include <algorithm>

#include "io/memory/page_memory.h"

namespace cairn {

Windows::Windows(std::shared_ptr<const ByteSource> under) : under_(std::move(under)) {
  if (const auto* windows = dynamic_cast<const Windows*>(under_.get()))
    windows_ = windows->windows_;
}

void Windows::add(std::uint64_t offset, SharedBytes bytes) {
  if (find(offset, bytes.view.size()) != nullptr) return;
  const std::uint64_t end = offset + bytes.view.size();
  const auto by_offset = [](const Window& window, std::uint64_t at) { return window.offset < at; };
  const auto first = std::lower_bound(windows_.begin(), windows_.end(), offset, by_offset);
  auto last = first;
  while (last != windows_.end() && last->end() <= end) {
    ++last;
  }
  windows_.insert(windows_.erase(first, last), {offset, std::move(bytes)});
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
    const auto buffer = std::make_shared_for_overwrite<std::byte[]>(extent.size);
    ask_for_huge_pages(buffer.get(), extent.size);
    ranges.push_back({extent.offset, {buffer.get(), extent.size}});
    fetched.push_back({extent.offset, {ByteView(buffer.get(), extent.size), buffer}});
  }
  if (ranges.empty()) return;
  under_->read(ranges);
  for (Window& window : fetched) {
    add(window.offset, std::move(window.bytes));
  }
}

const Windows::Window* Windows::find(std::uint64_t offset, std::uint64_t bytes) const {
  const auto behind =
      std::upper_bound(windows_.begin(), windows_.end(), offset,
                       [](std::uint64_t at, const Window& window) { return at < window.offset; });
  if (behind == windows_.begin()) return nullptr;
  // The last window that begins at or before `offset`. Of all such windows it also reaches
  // furthest.
  const Window& window = *std::prev(behind);
  return offset <= window.end() && bytes <= window.end() - offset ? &window : nullptr;
}

void Windows::split(std::uint64_t offset, std::uint64_t size, auto&& known, auto&& other) const {
  const std::uint64_t end = offset + size;
  auto window = std::partition_point(windows_.begin(), windows_.end(),
                                     [&](const Window& before) { return before.end() <= offset; });
  for (std::uint64_t at = offset; at < end;) {
    const bool is_known = window != windows_.end() && window->offset <= at;
    const std::uint64_t stop =
        window == windows_.end() ? end : std::min(end, is_known ? window->end() : window->offset);
    if (is_known) {
      known(at - offset, window->bytes.view.subspan(at - window->offset, stop - at));
      ++window;
    } else {
      other(at - offset, stop - at);
    }
    at = stop;
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
  struct Known {
    Origin origin;
    ByteView bytes;
    std::size_t before;  // index in `others` of the part that follows
  };
  std::vector<Part> others;
  std::vector<Origin> origins;
  std::vector<Known> known;
  others.reserve(parts.size());
  origins.reserve(parts.size());
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
          known.push_back({{i, begin}, bytes, others.size()});
        },
        [&](std::uint64_t begin, std::uint64_t size) {
          const auto into = part.into.empty() ? part.into : part.into.subspan(begin, size);
          others.push_back({part.offset + begin, size, into});
          origins.push_back({i, begin});
        });
  }
  auto next = known.begin();
  const auto show_known = [&](std::size_t before) {
    for (; next != known.end() && next->before <= before; ++next) {
      look(next->origin.part, next->origin.begin, next->bytes);
    }
  };
  const bool in_order = shows_in_order();
  if (!in_order) show_known(others.size());
  if (!others.empty()) {
    under_->read_each(others, [&](std::size_t i, std::uint64_t begin, ByteView bytes) {
      if (in_order) show_known(i);
      look(origins[i].part, origins[i].begin + begin, bytes);
    });
  }
  show_known(others.size());
}

SharedBytes Windows::view(std::uint64_t offset, std::uint64_t bytes) const {
  const Window* window = find(offset, bytes);
  if (window == nullptr) return under_->view(offset, bytes);
  return window->bytes.part(offset - window->offset, bytes);
}

}  // namespace cairn

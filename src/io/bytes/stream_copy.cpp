#include "io/bytes/stream_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace cairn {

#ifdef __SSE2__

void stream_lines(std::byte* to, const std::byte* from, std::size_t size) {
  for (std::size_t i = 0; i < size; i += kCacheLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
}

// Orders the stores past the cache before later stores, as other threads see them.
void stream_fence() { _mm_sfence(); }

#else

void stream_lines(std::byte* to, const std::byte* from, std::size_t size) {
  std::memcpy(to, from, size);
}

void stream_fence() {}

#endif

void stream_copy_unfenced(std::byte* to, const std::byte* from, std::size_t size) {
  constexpr std::size_t kWorthIt = std::size_t{2} << 10;
  if (size < kWorthIt) {
    std::memcpy(to, from, size);
    return;
  }
  const std::size_t head =
      (kCacheLine - reinterpret_cast<std::uintptr_t>(to) % kCacheLine) % kCacheLine;
  const std::size_t lines = (size - head) / kCacheLine * kCacheLine;
  std::memcpy(to, from, head);
  stream_lines(to + head, from + head, lines);
  std::memcpy(to + head + lines, from + head + lines, size - head - lines);
}

void stream_copy(std::byte* to, const std::byte* from, std::size_t size) {
  stream_copy_unfenced(to, from, size);
  stream_fence();
}

}  // namespace cairn

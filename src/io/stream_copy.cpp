#include "io/stream_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/crc32.h"

namespace cairn {

#ifdef __SSE2__

void StreamCopier::copy(std::byte* to, const std::byte* from, std::size_t size) {
  constexpr std::size_t kWorthIt = std::size_t{2} << 10;
  constexpr std::size_t kLine = 64;
  bridge_.before({from, size});
  if (size < kWorthIt) {
    std::memcpy(to, from, size);
    return;
  }
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + kLine <= size; i += kLine) {
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
  std::memcpy(to + i, from + i, size - i);
}

// Other threads must see these stores in order with all others.
void StreamCopier::fence() { _mm_sfence(); }

#else

void StreamCopier::copy(std::byte* to, const std::byte* from, std::size_t size) {
  bridge_.before({from, size});
  std::memcpy(to, from, size);
}

void StreamCopier::fence() {}

#endif

StreamCopier::~StreamCopier() { fence(); }

std::uint32_t StreamCopier::copy_with_crc32(std::byte* to, ByteView from, std::uint32_t before) {
  bridge_.before(from);
  return crc32_and_copy(to, from, before);
}

void stream_copy(std::byte* to, const std::byte* from, std::size_t size) {
  StreamCopier().copy(to, from, size);
}

}  // namespace cairn

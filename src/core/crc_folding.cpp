#include "core/crc_folding.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace cairn {

#ifdef __x86_64__

namespace {

#define CAIRN_FOLDS __attribute__((target("pclmul,sse4.1")))

CAIRN_FOLDS __m128i sixteen_at(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

CAIRN_FOLDS __m128i pair_of(const std::array<std::uint64_t, 2>& by) {
  return _mm_set_epi64x(static_cast<long long>(by[1]), static_cast<long long>(by[0]));
}

// `value` so far ahead of `next` as `by` says.
CAIRN_FOLDS __m128i folded_into(__m128i next, __m128i value, __m128i by) {
  const __m128i both =
      _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00), _mm_clmulepi64_si128(value, by, 0x11));
  return _mm_xor_si128(next, both);
}

}  // namespace

bool has_crc_folding() {
  static const bool kHas = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return kHas;
}

CAIRN_FOLDS std::array<std::byte, 16> folded(ByteView bytes, std::uint64_t crc,
                                             const CrcFolding& by) {
  const __m128i past_64 = pair_of(by.past_64);
  const __m128i past_16 = pair_of(by.past_16);
  const std::byte* at = bytes.data();
  // Four at once: a product takes four times as long as the processor needs to begin the next.
  __m128i a = _mm_xor_si128(sixteen_at(at), _mm_set_epi64x(0, static_cast<long long>(crc)));
  __m128i b = sixteen_at(at + 16);
  __m128i c = sixteen_at(at + 32);
  __m128i d = sixteen_at(at + 48);
  for (const std::byte* const end = at + bytes.size(); (at += 64) < end;) {
    a = folded_into(sixteen_at(at), a, past_64);
    b = folded_into(sixteen_at(at + 16), b, past_64);
    c = folded_into(sixteen_at(at + 32), c, past_64);
    d = folded_into(sixteen_at(at + 48), d, past_64);
  }
  b = folded_into(b, a, past_16);
  c = folded_into(c, b, past_16);
  d = folded_into(d, c, past_16);
  std::array<std::byte, 16> left;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(left.data()), d);
  return left;
}

#undef CAIRN_FOLDS

#else

bool has_crc_folding() { return false; }

std::array<std::byte, 16> folded(ByteView /*bytes*/, std::uint64_t /*crc*/,
                                 const CrcFolding& /*by*/) {
  return {};
}

#endif

}  // namespace cairn

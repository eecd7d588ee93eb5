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

namespace {

// 64 bytes, as four registers.
struct Line {
  __m128i a, b, c, d;
};

CAIRN_FOLDS Line line_at(const std::byte* at) {
  return {sixteen_at(at), sixteen_at(at + 16), sixteen_at(at + 32), sixteen_at(at + 48)};
}

CAIRN_FOLDS void stream(const Line& line, std::byte* to) {
  auto* const target = reinterpret_cast<__m128i*>(to);
  _mm_stream_si128(target, line.a);
  _mm_stream_si128(target + 1, line.b);
  _mm_stream_si128(target + 2, line.c);
  _mm_stream_si128(target + 3, line.d);
}

template <bool kCopies>
CAIRN_FOLDS std::array<std::byte, 16> fold(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                           std::byte* to) {
  const __m128i past_64 = pair_of(by.past_64);
  const __m128i past_16 = pair_of(by.past_16);
  const std::byte* at = bytes.data();
  // Four at once: a product takes four times as long as the processor needs to begin the next.
  Line sum = line_at(at);
  if constexpr (kCopies) stream(sum, to);
  sum.a = _mm_xor_si128(sum.a, _mm_set_epi64x(0, static_cast<long long>(crc)));
  for (const std::byte* const end = at + bytes.size(); (at += 64) < end;) {
    const Line next = line_at(at);
    if constexpr (kCopies) stream(next, to += 64);
    sum = {folded_into(next.a, sum.a, past_64), folded_into(next.b, sum.b, past_64),
           folded_into(next.c, sum.c, past_64), folded_into(next.d, sum.d, past_64)};
  }
  sum.b = folded_into(sum.b, sum.a, past_16);
  sum.c = folded_into(sum.c, sum.b, past_16);
  sum.d = folded_into(sum.d, sum.c, past_16);
  std::array<std::byte, 16> left;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(left.data()), sum.d);
  return left;
}

}  // namespace

CAIRN_FOLDS std::array<std::byte, 16> folded(ByteView bytes, std::uint64_t crc,
                                             const CrcFolding& by) {
  return fold<false>(bytes, crc, by, nullptr);
}

CAIRN_FOLDS std::array<std::byte, 16> folded_and_copied(ByteView bytes, std::uint64_t crc,
                                                        const CrcFolding& by, std::byte* to) {
  return fold<true>(bytes, crc, by, to);
}

#undef CAIRN_FOLDS

#else

bool has_crc_folding() { return false; }

std::array<std::byte, 16> folded(ByteView /*bytes*/, std::uint64_t /*crc*/,
                                 const CrcFolding& /*by*/) {
  return {};
}

std::array<std::byte, 16> folded_and_copied(ByteView /*bytes*/, std::uint64_t /*crc*/,
                                            const CrcFolding& /*by*/, std::byte* /*to*/) {
  return {};
}

#endif

}  // namespace cairn

#include "core/hash/crc_folding.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace cairn {

#ifdef __x86_64__

// Clang and GCC compile such a function for the named processor features, whatever the program is
// compiled for.
#define CAIRN_FOLDS __attribute__((target("pclmul,sse4.1")))
#define CAIRN_FOLDS_WIDE __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))

CrcFold best_crc_fold() {
  static const CrcFold kBest = [] {
    if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) {
      return CrcFold::kNone;
    }
    const bool is_wide =
        __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
    return is_wide ? CrcFold::k256 : CrcFold::k64;
  }();
  return kBest;
}

namespace {

using FoldFactors = std::array<std::uint64_t, 2>;

CAIRN_FOLDS __m128i sixteen_at(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

CAIRN_FOLDS __m128i pair_of(const FoldFactors& by) {
  return _mm_set_epi64x(static_cast<long long>(by[1]), static_cast<long long>(by[0]));
}

CAIRN_FOLDS __m128i start(std::uint64_t crc) {
  return _mm_set_epi64x(0, static_cast<long long>(crc));
}

// Moves `value` ahead by the factors `by`, and adds it to `next`.
CAIRN_FOLDS __m128i folded_into(__m128i next, __m128i value, __m128i by) {
  const __m128i both =
      _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00), _mm_clmulepi64_si128(value, by, 0x11));
  return _mm_xor_si128(next, both);
}

// 64 bytes, as four registers.
struct Line {
  __m128i a, b, c, d;
};

CAIRN_FOLDS std::array<std::byte, 16> left_of(Line sum, const FoldFactors& past_16) {
  const __m128i by = pair_of(past_16);
  sum.b = folded_into(sum.b, sum.a, by);
  sum.c = folded_into(sum.c, sum.b, by);
  sum.d = folded_into(sum.d, sum.c, by);
  std::array<std::byte, 16> left;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(left.data()), sum.d);
  return left;
}

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
CAIRN_FOLDS std::array<std::byte, 16> fold_64(ByteView bytes, std::uint64_t crc,
                                              const CrcFolding& by, std::byte* to) {
  const __m128i past_64 = pair_of(by.past_64);
  const std::byte* at = bytes.data();
  // Folds four registers at once: a product takes four times as long as the interval at which the
  // processor can start products.
  Line sum = line_at(at);
  if constexpr (kCopies) stream(sum, to);
  sum.a = _mm_xor_si128(sum.a, start(crc));
  for (const std::byte* const end = at + bytes.size(); (at += 64) < end;) {
    const Line next = line_at(at);
    if constexpr (kCopies) stream(next, to += 64);
    sum = {folded_into(next.a, sum.a, past_64), folded_into(next.b, sum.b, past_64),
           folded_into(next.c, sum.c, past_64), folded_into(next.d, sum.d, past_64)};
  }
  return left_of(sum, by.past_16);
}

CAIRN_FOLDS_WIDE __m512i pairs_of(const FoldFactors& by) {
  const auto first = static_cast<long long>(by[0]);
  const auto second = static_cast<long long>(by[1]);
  return _mm512_set4_epi64(second, first, second, first);
}

// Loads 64 bytes of the input. If kCopies, also copies them to the same offset of `to`.
template <bool kCopies>
CAIRN_FOLDS_WIDE __m512i line_at(const std::byte* from, std::byte* to, std::size_t at) {
  const __m512i line = _mm512_loadu_si512(from + at);
  if constexpr (kCopies) _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), line);
  return line;
}

CAIRN_FOLDS_WIDE __m512i folded_into(__m512i next, __m512i value, __m512i by) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(next, _mm512_clmulepi64_epi128(value, by, 0x00),
                                   _mm512_clmulepi64_epi128(value, by, 0x11), kXorOfThree);
}

// As fold_64(), for 256 bytes and more.
template <bool kCopies>
CAIRN_FOLDS_WIDE std::array<std::byte, 16> fold_256(ByteView bytes, std::uint64_t crc,
                                                    const CrcFolding& by, std::byte* to) {
  const __m512i past_256 = pairs_of(by.past_256);
  const __m512i past_64 = pairs_of(by.past_64);
  const std::byte* const from = bytes.data();
  const auto line = [&](std::size_t at) CAIRN_FOLDS_WIDE { return line_at<kCopies>(from, to, at); };
  __m512i a = _mm512_xor_si512(line(0), _mm512_zextsi128_si512(start(crc)));
  __m512i b = line(64);
  __m512i c = line(128);
  __m512i d = line(192);
  std::size_t at = 256;
  for (; at + 256 <= bytes.size(); at += 256) {
    a = folded_into(line(at), a, past_256);
    b = folded_into(line(at + 64), b, past_256);
    c = folded_into(line(at + 128), c, past_256);
    d = folded_into(line(at + 192), d, past_256);
  }
  b = folded_into(b, a, past_64);
  c = folded_into(c, b, past_64);
  __m512i sum = folded_into(d, c, past_64);
  for (; at < bytes.size(); at += 64) {
    sum = folded_into(line(at), sum, past_64);
  }
  std::array<std::byte, 64> parts;
  _mm512_storeu_si512(parts.data(), sum);
  return left_of(line_at(parts.data()), by.past_16);
}

template <bool kCopies>
std::array<std::byte, 16> fold_by(CrcFold fold, ByteView bytes, std::uint64_t crc,
                                  const CrcFolding& by, std::byte* to) {
  constexpr std::size_t kLeastWide = 256;
  return fold == CrcFold::k256 && bytes.size() >= kLeastWide ? fold_256<kCopies>(bytes, crc, by, to)
                                                             : fold_64<kCopies>(bytes, crc, by, to);
}

}  // namespace

std::array<std::byte, 16> folded(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                 CrcFold fold) {
  return fold_by<false>(fold, bytes, crc, by, nullptr);
}

std::array<std::byte, 16> folded_and_copied(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                            std::byte* to, CrcFold fold) {
  return fold_by<true>(fold, bytes, crc, by, to);
}

#undef CAIRN_FOLDS
#undef CAIRN_FOLDS_WIDE

#else

CrcFold best_crc_fold() { return CrcFold::kNone; }

std::array<std::byte, 16> folded(ByteView /*bytes*/, std::uint64_t /*crc*/,
                                 const CrcFolding& /*by*/, CrcFold /*fold*/) {
  return {};
}

std::array<std::byte, 16> folded_and_copied(ByteView /*bytes*/, std::uint64_t /*crc*/,
                                            const CrcFolding& /*by*/, std::byte* /*to*/,
                                            CrcFold /*fold*/) {
  return {};
}

#endif

}  // namespace cairn

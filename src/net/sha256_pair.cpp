#include "net/sha256_pair.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>

namespace cairn {

#ifdef __x86_64__

namespace {

#define CAIRN_HASHES __attribute__((target("sha,sse4.1,ssse3")))

constexpr std::size_t kShaBlock = 64;

// FIPS 180-4, 4.2.2: the first 32 bits of what is behind the point of the first primes' cube roots.
constexpr std::array<std::uint32_t, 64> kShaRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The eight words of the state, as the instructions have them.
struct ShaLane {
  __m128i abef;
  __m128i cdgh;
};

// The last 16 words of the schedule of a block, four and four, in a ring.
struct ShaWords {
  __m128i at[4];
};

CAIRN_HASHES ShaLane first_lane() {
  return {_mm_set_epi32(0x6a09e667, static_cast<int>(0xbb67ae85), 0x510e527f,
                        static_cast<int>(0x9b05688c)),
          _mm_set_epi32(0x3c6ef372, static_cast<int>(0xa54ff53a), 0x1f83d9ab, 0x5be0cd19)};
}

// Four rounds, the `step`th time, of one lane.
CAIRN_HASHES inline void four_rounds(ShaLane& lane, ShaWords& words, unsigned step) {
  __m128i& now = words.at[step % 4];
  if (step >= 4) {
    const __m128i last = words.at[(step + 3) % 4];
    const __m128i early = _mm_sha256msg1_epu32(now, words.at[(step + 1) % 4]);
    const __m128i between = _mm_alignr_epi8(last, words.at[(step + 2) % 4], 4);
    now = _mm_sha256msg2_epu32(_mm_add_epi32(early, between), last);
  }
  const auto* const constants = reinterpret_cast<const __m128i*>(kShaRounds.data()) + step;
  const __m128i sums = _mm_add_epi32(now, _mm_loadu_si128(constants));
  lane.cdgh = _mm_sha256rnds2_epu32(lane.cdgh, lane.abef, sums);
  lane.abef = _mm_sha256rnds2_epu32(lane.abef, lane.cdgh, _mm_shuffle_epi32(sums, 0x0E));
}

template <std::size_t N>
CAIRN_HASHES void hash_blocks(std::array<ShaLane, N>& states, std::array<const std::byte*, N> at,
                              std::size_t blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0C0D0E0F08090A0B, 0x0405060700010203);
  std::array<ShaLane, N> lanes = states;  // in registers
  for (; blocks > 0; --blocks) {
    const std::array<ShaLane, N> before = lanes;
    std::array<ShaWords, N> words;
    for (std::size_t lane = 0; lane < N; ++lane) {
      const auto* const from = reinterpret_cast<const __m128i*>(at[lane]);
      for (std::size_t i = 0; i < 4; ++i) {
        words[lane].at[i] = _mm_shuffle_epi8(_mm_loadu_si128(from + i), big_endian);
      }
      at[lane] += kShaBlock;
    }
#pragma GCC unroll 16
    for (unsigned step = 0; step < 16; ++step) {
#pragma GCC unroll 2
      for (std::size_t lane = 0; lane < N; ++lane) {
        four_rounds(lanes[lane], words[lane], step);
      }
    }
    for (std::size_t lane = 0; lane < N; ++lane) {
      lanes[lane].abef = _mm_add_epi32(lanes[lane].abef, before[lane].abef);
      lanes[lane].cdgh = _mm_add_epi32(lanes[lane].cdgh, before[lane].cdgh);
    }
  }
  states = lanes;
}

// Of what `state` is of, and of the rest of `whole`, from `done` on, a whole number of blocks.
CAIRN_HASHES Sha256 finish_hash(const ShaLane& state, ByteView whole, std::size_t done) {
  std::array<ShaLane, 1> lane = {state};
  const std::size_t blocks = (whole.size() - done) / kShaBlock;
  hash_blocks<1>(lane, {whole.data() + done}, blocks);
  const ByteView rest = whole.subspan(done + blocks * kShaBlock);
  std::array<std::byte, 2 * kShaBlock> end = {};
  std::copy(rest.begin(), rest.end(), end.begin());
  end[rest.size()] = std::byte{0x80};
  const std::size_t end_blocks = rest.size() + 9 <= kShaBlock ? 1 : 2;
  for (std::size_t i = 0; i < 8; ++i) {
    end[end_blocks * kShaBlock - 1 - i] =
        static_cast<std::byte>(std::uint64_t{whole.size()} * 8 >> 8 * i);
  }
  hash_blocks<1>(lane, {end.data()}, end_blocks);
  // From the highest: a b e f and c d g h.
  std::array<std::uint32_t, 4> abef;
  std::array<std::uint32_t, 4> cdgh;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(abef.data()), lane[0].abef);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(cdgh.data()), lane[0].cdgh);
  const std::array words = {abef[3], abef[2], cdgh[3], cdgh[2], abef[1], abef[0], cdgh[1], cdgh[0]};
  Sha256 result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<std::byte>(words[i / 4] >> (24 - 8 * (i % 4)));
  }
  return result;
}

}  // namespace

bool has_sha256_pair() {
  static const bool kHas = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;  // older compilers do not know this one by name
    const bool has_sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
    return has_sha && __builtin_cpu_supports("sse4.1");
  }();
  return kHas;
}

std::array<Sha256, 2> sha256_pair(ByteView a, ByteView b) {
  if (!has_sha256_pair()) return {sha256({&a, 1}), sha256({&b, 1})};
  std::array<ShaLane, 2> lanes = {first_lane(), first_lane()};
  const std::size_t blocks = std::min(a.size(), b.size()) / kShaBlock;
  hash_blocks<2>(lanes, {a.data(), b.data()}, blocks);
  return {finish_hash(lanes[0], a, blocks * kShaBlock),
          finish_hash(lanes[1], b, blocks * kShaBlock)};
}

#undef CAIRN_HASHES

#else

bool has_sha256_pair() { return false; }

std::array<Sha256, 2> sha256_pair(ByteView a, ByteView b) {
  return {sha256({&a, 1}), sha256({&b, 1})};
}

#endif

}  // namespace cairn

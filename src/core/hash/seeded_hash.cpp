#include "core/hash/seeded_hash.h"

#include <array>
#include <bit>
#include <cstring>
#include <random>

namespace cairn {
namespace {

using SipKey = std::array<std::uint64_t, 2>;

SipKey random_key() {
  std::random_device device;
  const auto half = [&] { return std::uint64_t{device()} << 32 | device(); };
  return {half(), half()};
}

const SipKey& process_key() {
  static const SipKey key = random_key();
  return key;
}

// SipHash by Aumasson and Bernstein, with one round for each eight bytes and three at the end.
class SipState {
 public:
  explicit SipState(const SipKey& key)
      : v_{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
           key[1] ^ 0x7465646279746573} {}

  void add(std::uint64_t word) {
    v_[3] ^= word;
    round();
    v_[0] ^= word;
  }

  std::uint64_t finish() {
    v_[2] ^= 0xff;
    round();
    round();
    round();
    return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
  }

 private:
  void round() {
    v_[0] += v_[1];
    v_[1] = std::rotl(v_[1], 13) ^ v_[0];
    v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[3];
    v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] += v_[3];
    v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] += v_[1];
    v_[1] = std::rotl(v_[1], 17) ^ v_[2];
    v_[2] = std::rotl(v_[2], 32);
  }

  std::array<std::uint64_t, 4> v_;
};

}  // namespace

std::uint64_t seeded_hash(std::string_view bytes) {
  SipState state(process_key());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    state.add(word);
  }
  std::uint64_t last = std::uint64_t{bytes.size()} << 56;
  if (at < bytes.size()) std::memcpy(&last, bytes.data() + at, bytes.size() - at);
  state.add(last);
  return state.finish();
}

std::uint64_t seeded_hash(std::uint64_t number) {
  SipState state(process_key());
  state.add(number);
  return state.finish();
}

}  // namespace cairn

#include "core/hash/xxh3.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

#include "cairn/error.h"

namespace cairn {

struct Xxh3::State {
  State() {
    if (hash == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(hash);
  }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* hash = XXH3_createState();
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;

// The state is the same for digests of both lengths; only the digest differs.
void Xxh3::write(ByteView bytes) { XXH3_128bits_update(state_->hash, bytes.data(), bytes.size()); }

std::uint64_t Xxh3::digest64() const { return XXH3_64bits_digest(state_->hash); }

std::string Xxh3::digest128() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_->hash);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

std::uint64_t xxh3_64(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

namespace {

// The digest of the text with zeros in place of the digits at `at`.
std::string digest_of(std::string_view text, std::size_t at) {
  Xxh3 hash;
  hash.write(as_bytes(text.substr(0, at)));
  hash.write(as_bytes(std::string(kSealDigits, '0')));
  hash.write(as_bytes(text.substr(at + kSealDigits)));
  return hash.digest128();
}

// Returns the position of the digits; npos if there is no marker, or no room after the marker.
std::size_t find_digits(std::string_view text, std::string_view marker) {
  const std::size_t found = text.find(marker);
  if (found == std::string_view::npos) return found;
  const std::size_t at = found + marker.size();
  return text.size() - at < kSealDigits ? std::string_view::npos : at;
}

}  // namespace

void seal(std::string& text, std::string_view marker) {
  const std::size_t at = find_digits(text, marker);
  if (at == std::string::npos) throw UsageError("a text without room for its checksum");
  text.replace(at, kSealDigits, digest_of(text, at));
}

Seal check_seal(std::string_view text, std::string_view marker) {
  const std::size_t at = find_digits(text, marker);
  if (at == std::string_view::npos) return Seal::kNone;
  return text.substr(at, kSealDigits) == digest_of(text, at) ? Seal::kGood : Seal::kBroken;
}

}  // namespace cairn

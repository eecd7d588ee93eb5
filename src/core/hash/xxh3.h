// XXH3, the hash that cairn writes into formats that have no checksums.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/bytes.h"

namespace cairn {

// Hashes the bytes that are written to this sink.
class Xxh3 final : public ByteSink {
 public:
  Xxh3();
  ~Xxh3() override;

  void write(ByteView bytes) override;
  // The hash of all bytes so far.
  std::uint64_t digest64() const;
  std::string digest128() const;  // 32 hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t xxh3_64(ByteView bytes);

inline constexpr std::size_t kSealDigits = 32;

// Writes the XXH3-128 of a text into the text: 32 hex digits directly after the first `marker`,
// computed with zeros in their place. Throws UsageError if `text` has no marker with room for the
// digits after it.
void seal(std::string& text, std::string_view marker);

enum class Seal : std::uint8_t { kNone, kGood, kBroken };  // kNone: there is no marker
Seal check_seal(std::string_view text, std::string_view marker);

}  // namespace cairn

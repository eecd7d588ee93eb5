// XXH3, the hash of what cairn writes into formats that have no checksums.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/bytes.h"

namespace cairn {

// Hashes what is written to it.
class Xxh3 final : public ByteSink {
 public:
  Xxh3();
  ~Xxh3() override;

  void write(ByteView bytes) override;
  // Of all bytes so far.
  std::uint64_t digest64() const;
  std::string digest128() const;  // 32 hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t xxh3_64(ByteView bytes);

inline constexpr std::size_t kSealDigits = 32;

// A text that holds its own XXH3-128: 32 hex digits directly behind the first `marker`, computed
// with zeros in their place. seal() puts it in; `text` must hold the marker and room behind it.
void seal(std::string& text, std::string_view marker);

enum class Seal : std::uint8_t { kNone, kGood, kBroken };  // kNone: there is no marker
Seal check_seal(std::string_view text, std::string_view marker);

}  // namespace cairn

// The hashes of network protocols, by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/bytes.h"

#include "core/text/hex.h"  // Most hashes are written in hex.

namespace cairn {

using Sha256 = std::array<std::byte, 32>;
using Md5 = std::array<std::byte, 16>;

// The hash of the parts, one after another.
Sha256 sha256(std::span<const ByteView> parts);
Sha256 sha256(std::string_view text);
Md5 md5(std::span<const ByteView> parts);
Sha256 hmac_sha256(ByteView key, std::string_view text);

std::string base64(ByteView bytes);
// Expects the padding. Returns nullopt if `text` is not base 64.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace cairn

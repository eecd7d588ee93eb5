// The text encodings of pickles.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::pickle {

// UTF-8 as Python's "surrogatepass" writes it: lone surrogates are let through.
bool is_utf8(std::string_view text);

// bytes as _codecs.encode(..., 'latin1') carries them: each byte is one character below U+0100.
std::string latin1_to_utf8(std::string_view bytes);
// The inverse; nullopt when there is a character from U+0100 on. `text` must be UTF-8.
std::optional<std::string> utf8_to_latin1(std::string_view text);

// Python's raw-unicode-escape: bytes are characters below U+0100, \uXXXX and \UXXXXXXXX any other.
// nullopt for an escape that is cut off or means no character.
std::optional<std::string> raw_unicode_escape_to_utf8(std::string_view bytes);

}  // namespace cairn::pickle

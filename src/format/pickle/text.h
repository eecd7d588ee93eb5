// The text encodings of pickles.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::pickle {

// Returns whether the text is UTF-8 as Python's "surrogatepass" writes it: lone surrogates are
// allowed.
bool is_utf8(std::string_view text);

// Turns bytes into the text that _codecs.encode(text, 'latin1') gets: each byte is one character
// below U+0100.
std::string latin1_to_utf8(std::string_view bytes);
// The inverse of latin1_to_utf8(). Returns nullopt if there is a character of U+0100 or above.
// `text` must be UTF-8.
std::optional<std::string> utf8_to_latin1(std::string_view text);

// Decodes Python's raw-unicode-escape: a byte is a character below U+0100, \uXXXX and \UXXXXXXXX
// are any other. Returns nullopt for an escape that is cut off or means no character.
std::optional<std::string> raw_unicode_escape_to_utf8(std::string_view bytes);

}  // namespace cairn::pickle

// Makes text from a file safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// Replaces control characters (except line feeds) and bytes that are not UTF-8 by "\x1b" and the
// like. So names in a file cannot move the cursor or do worse.
std::string printable(std::string_view text);

// As above for text within one line, such as a name. Also replaces line feeds and the two other
// line separators (U+2028, U+2029), so that the text cannot start a new line.
std::string printable_line(std::string_view text);

// Returns a JSON text of the same meaning in which DEL and C1 control characters are \u escapes.
// JSON allows them in strings, but terminals obey them.
std::string printable_json(std::string json);

}  // namespace cairn

// Text that comes out of a file, on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// With control characters (all but line feeds) and bytes that are no UTF-8 as "\x1b", so that the
// names in a file cannot move the cursor, or do worse.
std::string printable(std::string_view text);

// The same for what stands in one line, a name say: line feeds, too, and the two other characters
// that end a line (U+2028, U+2029), so that it cannot make a line of its own.
std::string printable_line(std::string_view text);

// The text of a JSON document with DEL and the C1 control characters, which JSON lets stand in its
// strings and terminals obey, as \u escapes. It means the same.
std::string printable_json(std::string json);

}  // namespace cairn

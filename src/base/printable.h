// Text that comes out of a file, on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// With control characters (all but line feeds) and bytes that are no UTF-8 as "\x1b", so that the
// names in a file cannot move the cursor, or do worse.
std::string printable(std::string_view text);

}  // namespace cairn

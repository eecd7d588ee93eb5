// Rows of CSV whose cells have no line ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// A row with its line end. Control characters in cells are written as "\x0a".
std::string csv_line(const std::vector<std::string>& cells);
// The cells of a row without its line end.
std::vector<std::string> csv_cells(std::string_view line);

}  // namespace cairn

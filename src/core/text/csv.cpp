#include "core/text/csv.h"

#include "core/text/printable.h"

namespace cairn {
namespace {

// No cell has a line end, so that a line of the file is a row.
std::string csv_cell(const std::string& text) {
  const std::string cell = printable_line(text);
  if (cell.find_first_of(",\"") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell)
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) line += ',';
    line += csv_cell(cell);
  }
  return line + "\n";
}

std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool is_doubled = is_quoted && line.compare(i, 2, "\"\"") == 0;
    if (is_doubled) ++i;
    if (line[i] == '"' && !is_doubled) {
      is_quoted = !is_quoted;
    } else if (line[i] == ',' && !is_quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

}  // namespace cairn

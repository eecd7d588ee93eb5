#include "loggers/csv_file.h"

#include <algorithm>
#include <sstream>

#include "core/text/printable.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"

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

std::vector<std::string> csv_cells(const std::string& line) {
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

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) line += ',';
    line += csv_cell(cell);
  }
  return line + "\n";
}

std::string text_of_file(const std::string& path) {
  const auto source = posix_file_system().open(path);
  const SharedBytes bytes = source->view(0, source->size());
  return std::string(as_text(bytes.view));
}

}  // namespace

CsvFile::CsvFile(std::string path, bool truncate) : path_(std::move(path)) {
  file_.emplace(path_, truncate);
  std::istringstream text(text_of_file(path_));
  std::string header;
  if (std::getline(text, header)) columns_ = csv_cells(header);
}

void CsvFile::append(const CsvRow& row) {
  add_columns(row);
  std::vector<std::string> cells(columns_.size());
  for (const auto& [name, cell] : row) {
    const auto column = std::find(columns_.begin(), columns_.end(), name);
    cells[static_cast<std::size_t>(column - columns_.begin())] = cell;
  }
  file_->append(csv_line(cells));
}

void CsvFile::add_columns(const CsvRow& row) {
  const std::size_t before = columns_.size();
  for (const auto& [name, cell] : row) {
    if (std::find(columns_.begin(), columns_.end(), name) == columns_.end())
      columns_.push_back(name);
  }
  if (columns_.size() == before) return;
  std::string text = csv_line(columns_);
  std::istringstream old(text_of_file(path_));
  std::string line;
  std::getline(old, line);  // the old header
  const std::string empty_cells(before == 0 ? 0 : columns_.size() - before, ',');
  while (std::getline(old, line))
    text += line + empty_cells + "\n";
  AtomicFile file(posix_file_system(), path_, {});
  file.write(as_bytes(text));
  file.commit();
  file_.emplace(path_);
}

}  // namespace cairn

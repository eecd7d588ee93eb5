#include "loggers/csv_file.h"

#include <algorithm>
#include <sstream>

#include "core/text/csv.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"

namespace cairn {
namespace {

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

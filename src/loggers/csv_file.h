// A CSV file (RFC 4180) that grows line by line, and whose columns grow with it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/files/append_file.h"

namespace cairn {

// A line: cells by the names of their columns.
using CsvRow = std::vector<std::pair<std::string, std::string>>;

class CsvFile {
 public:
  // Continues the file, with its columns, or begins it. `truncate` empties it first. Throws
  // StorageError.
  CsvFile(std::string path, bool truncate);

  // When this returns, the kernel has the line. A row with new columns replaces the file by one
  // with these columns, in which older lines have empty cells. Cells without a value are empty.
  void append(const CsvRow& row);

 private:
  void add_columns(const CsvRow& row);

  std::string path_;
  std::optional<AppendFile> file_;
  std::vector<std::string> columns_;
};

}  // namespace cairn

// Rows of text in aligned columns.
#pragma once

#include <string>
#include <vector>

#include "cli/view/console.h"

namespace cairn::cli {

struct Cell {
  using Paint = std::string (Console::*)(const std::string&) const;

  // NOLINTBEGIN(google-explicit-constructor): rows read like lists of texts
  Cell(std::string t, Paint p = nullptr) : text(std::move(t)), paint(p) {}
  Cell(const char* t) : text(t) {}
  // NOLINTEND(google-explicit-constructor)

  std::string text;
  Paint paint = nullptr;
};

class Table {
 public:
  // A title that starts with ">" aligns its column at the right; the ">" is not shown.
  explicit Table(const std::vector<std::string>& titles);

  // Adds as many cells as there are titles. Text from files goes through printable_line().
  void add(std::vector<Cell> row);
  // Prints nothing if there are no rows.
  void print(Console& console) const;
  // As print(). If the console is quiet, prints only the rows with a problem. These are the rows
  // with a red cell.
  void print_report(Console& console) const;

 private:
  std::vector<bool> is_right_;
  std::vector<std::vector<Cell>> rows_;  // the titles first
};

}  // namespace cairn::cli

// Rows of text in columns that line up.
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
  // Titles that start with ">" are of columns that line up at the right, without the ">".
  explicit Table(const std::vector<std::string>& titles);

  // As many cells as there are titles; what comes from files is made printable_line().
  void add(std::vector<Cell> row);
  // Nothing when there are no rows.
  void print(Console& console) const;
  // As print(). If the console is quiet, only the rows that say something bad: with a red cell.
  void print_report(Console& console) const;

 private:
  std::vector<bool> is_right_;
  std::vector<std::vector<Cell>> rows_;  // the titles first
};

}  // namespace cairn::cli

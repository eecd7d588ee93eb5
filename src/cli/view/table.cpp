#include "cli/view/table.h"

#include <algorithm>

#include "core/text/printable.h"
#include "terminal/columns.h"

namespace cairn::cli {
Table::Table(const std::vector<std::string>& titles) {
  std::vector<Cell> row;
  for (const std::string& title : titles) {
    is_right_.push_back(title.starts_with('>'));
    row.emplace_back(title.substr(is_right_.back() ? 1 : 0), &Console::dim);
  }
  rows_.push_back(std::move(row));
}

void Table::add(std::vector<Cell> row) {
  for (Cell& cell : row) {
    cell.text = printable_line(cell.text);
  }
  rows_.push_back(std::move(row));
}

void Table::print_report(Console& console) const {
  Table report = *this;
  const auto is_good = [](const std::vector<Cell>& row) {
    return std::none_of(row.begin(), row.end(),
                        [](const Cell& cell) { return cell.paint == &Console::red; });
  };
  if (console.quiet) {
    report.rows_.erase(std::remove_if(report.rows_.begin() + 1, report.rows_.end(), is_good),
                       report.rows_.end());
  }
  report.print(console);
}

void Table::print(Console& console) const {
  if (rows_.size() == 1) return;
  std::vector<std::size_t> widths(is_right_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], columns_of(row[i].text));
    }
  }
  for (const auto& row : rows_) {
    std::string line;
    std::string padding;  // written only before another cell, so that no line ends in spaces
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - columns_of(row[i].text), ' ');
      const Cell& cell = row[i];
      if (is_right_[i]) padding += fill;
      if (!cell.text.empty()) {
        line += padding + (cell.paint ? (console.*cell.paint)(cell.text) : cell.text);
        padding.clear();
      }
      padding += (is_right_[i] ? "" : fill) + "  ";
    }
    console.out << line << "\n";
  }
}

}  // namespace cairn::cli

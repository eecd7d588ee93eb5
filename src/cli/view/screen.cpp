#include "cli/view/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "cli/view/printable_stream.h"
#include "terminal/columns.h"

namespace cairn::cli {
namespace {

// A terminal in which a line that is too long does not go on in the next row.
constexpr std::string_view kNoWrap = "\x1b[?7l";
constexpr std::string_view kWrap = "\x1b[?7h";

}  // namespace

TerminalSize Screen::size() const {
  const TerminalSize size = size_();
  return {size.columns > 0 ? size.columns : 80, size.rows > 0 ? size.rows : 24};
}

void Screen::draw(const std::vector<std::string>& log, const std::vector<std::string>& view) {
  // Written in one piece, so that no half view is seen, and none stays if the process is killed.
  std::ostringstream text;
  text << "\r";
  if (const std::size_t rows = rows_of_view(); rows > 0) text << fmt::format("\x1b[{}A", rows);
  text << "\x1b[J";
  write_lines(text, log, std::numeric_limits<std::size_t>::max());
  // The row below the view has the cursor.
  const auto most = static_cast<std::size_t>(std::max(size().rows - 1, 1));
  text << kNoWrap;
  write_lines(text, view, most);
  text << kWrap;
  out_ << text.str() << std::flush;
  widths_.clear();
  for (const std::string& line : view) {  // a longer line was cut; colours take no columns
    if (widths_.size() == most) break;
    widths_.push_back(std::min(columns_of(line), static_cast<std::size_t>(size().columns)));
  }
}

void Screen::write_lines(std::ostream& text, const std::vector<std::string>& lines,
                         std::size_t most) {
  PrintableBuffer gate(text, color_);
  std::ostream printable(&gate);
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i)
    printable << lines[i] << "\n";
  printable.flush();
}

// A terminal that has become narrower has broken the lines that do not fit any more.
std::size_t Screen::rows_of_view() const {
  const auto columns = static_cast<std::size_t>(size().columns);
  std::size_t rows = 0;
  for (const std::size_t width : widths_)
    rows += std::max<std::size_t>((width + columns - 1) / columns, 1);
  return rows;
}

}  // namespace cairn::cli

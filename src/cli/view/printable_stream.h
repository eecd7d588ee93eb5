// The only way from the tool to stdout. The only control characters that reach the terminal are
// line feeds, tabs and the colours of Console, whatever a command writes.
//
// It is the last filter. Text within a line (a name, a cell) must go through printable_line()
// first: this stream cannot know which line feeds are intended.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace cairn::cli {

class PrintableBuffer final : public std::streambuf {
 public:
  // `out` must outlive this buffer. `color`: Console's colours may pass.
  PrintableBuffer(std::ostream& out, bool color) : out_(out), color_(color) {}

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  bool write(std::string_view text);

  std::ostream& out_;
  bool color_;
  std::string begun_;  // the beginning of a character whose other bytes have not come yet
};

}  // namespace cairn::cli

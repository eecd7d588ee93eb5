// The one way from the tool to stdout: whatever a command writes, and wherever that comes from, no
// control character reaches the terminal but line feeds, tabs and the colours of Console.
//
// It is the last gate. What stands in one line (a name, a cell) goes through printable_line()
// before: only there is it known that a line feed in it is not meant as one.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace cairn::cli {

class PrintableBuffer final : public std::streambuf {
 public:
  // `out` must outlive it. `color`: Console's colours may pass.
  PrintableBuffer(std::ostream& out, bool color) : out_(out), color_(color) {}

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  bool write(std::string_view text);

  std::ostream& out_;
  bool color_;
  std::string begun_;  // of a character whose other bytes have not come yet
};

}  // namespace cairn::cli

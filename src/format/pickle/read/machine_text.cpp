// The machine's opcodes of protocol 0, whose operands are lines of text.
#include <charconv>
#include <optional>

#include "cairn/error.h"

#include "format/pickle/read/machine.h"
#include "format/pickle/text.h"

namespace cairn::pickle {
namespace {

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t index_in(std::string_view line) {
  const auto index = number_in<std::uint64_t>(line);
  if (!index) fail("numbers an object by a text that is not a number");
  return *index;
}

// Removes an escape (a backslash and the characters after it) from the start of `rest`. Returns the
// byte that it means.
char take_escape(std::string_view& rest) {
  constexpr std::string_view kMeanings = "\\\\''\"\"n\nr\rt\t";  // letter, byte, letter, byte, ...
  const char letter = rest.size() > 1 ? rest[1] : '\0';
  if (letter == 'x' && rest.size() >= 4) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(rest.data() + 2, rest.data() + 4, byte, 16);
    if (error != std::errc() || end != rest.data() + 4) fail("holds a str with a wrong escape");
    rest.remove_prefix(4);
    return static_cast<char>(byte);
  }
  for (std::size_t i = 0; i < kMeanings.size(); i += 2) {
    if (kMeanings[i] != letter) continue;
    rest.remove_prefix(2);
    return kMeanings[i + 1];
  }
  fail("holds a str with a wrong escape");
}

// Decodes Python's repr of a Python 2 str: 'a\n\x00'.
std::string decode_repr(std::string_view line) {
  const bool is_quoted =
      line.size() >= 2 && line.front() == line.back() && (line[0] == '\'' || line[0] == '"');
  if (!is_quoted) fail("holds a str without quotes");
  std::string_view rest = line.substr(1, line.size() - 2);
  std::string out;
  while (!rest.empty()) {
    if (rest[0] == '\\') {
      out.push_back(take_escape(rest));
    } else {
      out.push_back(rest[0]);
      rest.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

// As in Python, "01" and "00" are the booleans.
void Machine::push_integer_line(std::string_view line) {
  if (line == "01" || line == "00") return push(line == "01");
  if (line.ends_with('L')) line.remove_suffix(1);
  const std::string_view digits = line.starts_with('-') ? line.substr(1) : line;
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    fail("holds an int that is not a number");
  }
  const auto value = number_in<std::int64_t>(line);
  if (!value) {
    throw UnsupportedError(
        "the pickle holds an int beyond 64 bits as text; save it with protocol 2");
  }
  push(graph_.add_integer(*value));
}

void Machine::push_float_line(std::string_view line) {
  const auto value = number_in<double>(line);  // also "inf", "-nan"
  if (!value) fail("holds a float that is not a number");
  push(graph_.add_real(*value));
}

bool Machine::run_line(Op op) {
  switch (op) {
    case Op::kInt:
    case Op::kLong:
      push_integer_line(in_.line());
      return true;
    case Op::kFloat:
      push_float_line(in_.line());
      return true;
    case Op::kString:
      push(graph_.add(Text{graph_.keep(decode_repr(in_.line())), true}));
      return true;
    case Op::kUnicode: {
      auto text = raw_unicode_escape_to_utf8(in_.line());
      if (!text) fail("holds a str with a wrong escape");
      push(graph_.add(Text{graph_.keep(std::move(*text))}));
      return true;
    }
    case Op::kGet:
      recall(index_in(in_.line()));
      return true;
    case Op::kPut:
      remember(index_in(in_.line()));
      return true;
    default:
      return false;
  }
}

}  // namespace cairn::pickle

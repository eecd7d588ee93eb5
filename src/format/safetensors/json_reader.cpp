#include "format/safetensors/json_reader.h"

#include <array>

#include "cairn/error.h"

#include "core/text/utf8.h"

namespace cairn {
namespace {

constexpr std::size_t kMaxNesting = 128;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_surrogate(char32_t point) { return point >= 0xD800 && point <= 0xDFFF; }

void append_utf8(std::string& to, char32_t point) {
  const auto add = [&](char32_t bits) { to += static_cast<char>(bits); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0 | (point >> 6));
    add(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    add(0xE0 | (point >> 12));
    add(0x80 | ((point >> 6) & 0x3F));
    add(0x80 | (point & 0x3F));
  } else {
    add(0xF0 | (point >> 18));
    add(0x80 | ((point >> 12) & 0x3F));
    add(0x80 | ((point >> 6) & 0x3F));
    add(0x80 | (point & 0x3F));
  }
}

}  // namespace

char JsonReader::peek() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c;
    ++position_;
  }
  return '\0';
}

std::uint64_t JsonReader::offset() {
  peek();
  return base_ + position_;
}

void JsonReader::fail(const std::string& problem) const {
  throw CorruptError(std::string(what_) + " is not valid: " + problem + " at byte " +
                         std::to_string(position_) + " of it",
                     {}, base_ + position_);
}

bool JsonReader::accept(char c) {
  if (peek() != c || position_ == text_.size()) return false;
  ++position_;
  return true;
}

void JsonReader::expect(char c) {
  if (!accept(c)) fail(std::string("no '") + c + "'");
}

bool JsonReader::accept_word(std::string_view word) {
  peek();
  if (!text_.substr(position_).starts_with(word)) return false;
  position_ += word.size();
  return true;
}

bool JsonReader::accept_null() { return accept_word("null"); }

void JsonReader::end() {
  peek();
  if (position_ != text_.size()) fail("something follows its end");
}

std::string JsonReader::string() {
  expect('"');
  std::string value;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '"') {
      ++position_;
      return value;
    }
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
    if (c == '\\') {
      ++position_;
      append_escape(value);
      continue;
    }
    const CodePoint point = first_code_point(text_.substr(position_));
    if (is_surrogate(point.value)) fail("a byte that is not UTF-8");
    value.append(text_, position_, point.size);
    position_ += point.size;
  }
  fail("a string without end");
}

void JsonReader::append_escape(std::string& to) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char c = position_ < text_.size() ? text_[position_++] : '\0';
  if (c != 'u') {
    const std::size_t letter = c == '\0' ? std::string_view::npos : kLetters.find(c);
    if (letter == std::string_view::npos) fail("an unknown escape");
    to += kMeanings[letter];
    return;
  }
  char32_t point = hex4();
  if (is_surrogate(point)) {
    const bool has_second = point < 0xDC00 && text_.substr(position_).starts_with("\\u");
    if (has_second) position_ += 2;
    const char32_t low = has_second ? hex4() : 0;
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(to, point);
}

char32_t JsonReader::hex4() {
  char32_t value = 0;
  for (int i = 0; i < 4; ++i, ++position_) {
    const char c = position_ < text_.size() ? text_[position_] : '\0';
    const char lower = static_cast<char>(c | 0x20);
    if (is_digit(c)) {
      value = value * 16 + static_cast<char32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
    } else {
      fail("no hexadecimal digit");
    }
  }
  return value;
}

std::uint64_t JsonReader::unsigned_number() {
  if (!is_digit(peek())) fail("no whole number");
  const bool leading_zero = text_[position_] == '0';
  std::uint64_t value = 0;
  const std::size_t first = position_;
  for (; position_ < text_.size() && is_digit(text_[position_]); ++position_) {
    const auto digit = static_cast<std::uint64_t>(text_[position_] - '0');
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
        __builtin_add_overflow(value, digit, &value)) {
      fail("a number beyond 64 bits");
    }
  }
  if (leading_zero && position_ - first > 1) fail("a number with a leading zero");
  const char next = position_ < text_.size() ? text_[position_] : '\0';
  if (next == '.' || next == 'e' || next == 'E') fail("a number that is not whole");
  return value;
}

std::size_t JsonReader::skip_digits() {
  const std::size_t first = position_;
  while (position_ < text_.size() && is_digit(text_[position_])) {
    ++position_;
  }
  if (position_ == first) fail("no digit");
  return position_ - first;
}

void JsonReader::skip_number() {
  const auto next_is = [&](std::string_view one_of) {
    return position_ < text_.size() && one_of.find(text_[position_]) != std::string_view::npos;
  };
  if (next_is("-")) ++position_;
  const bool leading_zero = next_is("0");
  if (skip_digits() > 1 && leading_zero) fail("a number with a leading zero");
  if (next_is(".")) {
    ++position_;
    skip_digits();
  }
  if (!next_is("eE")) return;
  ++position_;
  if (next_is("+-")) ++position_;
  skip_digits();
}

void JsonReader::skip_scalar() {
  if (!accept_word("true") && !accept_word("false") && !accept_null()) skip_number();
}

std::string JsonReader::scalar_text() {
  peek();
  const std::size_t first = position_;
  skip_scalar();
  return std::string(text_.substr(first, position_ - first));
}

void JsonReader::expect_key() {
  string();
  expect(':');
}

// `open` holds the brackets that were opened and not closed, outermost first.
void JsonReader::skip() {
  std::string open;
  do {
    const char first = peek();
    if (first == '{' || first == '[') {
      if (open.size() == kMaxNesting) fail("more than 128 values inside one another");
      ++position_;
      if (!accept(first == '{' ? '}' : ']')) {
        open += first;
        if (first == '{') expect_key();
        continue;
      }
    } else if (first == '"') {
      string();
    } else {
      skip_scalar();
    }
    while (!open.empty()) {  // a value has ended: next comes another value, or the end of the
                             // container
      if (accept(',')) {
        if (open.back() == '{') expect_key();
        break;
      }
      expect(open.back() == '{' ? '}' : ']');
      open.pop_back();
    }
  } while (!open.empty());
}

}  // namespace cairn

// Reads JSON value by value; the caller says which value it expects next. Builds only values that
// are asked for, so that only what the caller keeps takes memory. Nested text does not lead to
// nested calls.
//
// Strict (RFC 8259): UTF-8 without byte order mark, no lone surrogates, no control characters in
// strings, no NUL bytes. Every error is a CorruptError with its offset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

class JsonReader {
 public:
  // `what` names the text in messages ("the header") and must outlive the reader. `base` is the
  // offset of the text in the file.
  explicit JsonReader(std::string_view text, const char* what, std::uint64_t base = 0)
      : text_(text), what_(what), base_(base) {}

  // Calls member(key) for every member of an object. `member` must read the member's value.
  template <class Member>
  void object(Member member) {
    expect('{');
    if (accept('}')) return;
    do {
      std::string key = string();
      expect(':');
      member(std::move(key));
    } while (accept(','));
    expect('}');
  }

  // Calls item() for every item of an array. `item` must read the item.
  template <class Item>
  void array(Item item) {
    expect('[');
    if (accept(']')) return;
    do {
      item();
    } while (accept(','));
    expect(']');
  }

  std::string string();
  std::uint64_t unsigned_number();  // no sign, fraction or exponent; below 2^64
  bool accept_null();
  void skip();  // any value, nested at most 128 deep
  // Reads a number, true, false or null, and returns it as written.
  std::string scalar_text();
  void end();  // only white space may follow

  // Returns the first character of the next value; NUL at the end.
  char peek();
  // Returns the offset of the next value in the file.
  std::uint64_t offset();
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  bool accept(char c);
  void expect(char c);
  bool accept_word(std::string_view word);
  void expect_key();
  void skip_scalar();
  void skip_number();
  std::size_t skip_digits();
  void append_escape(std::string& to);
  char32_t hex4();

  std::string_view text_;
  const char* what_;
  std::uint64_t base_;
  std::size_t position_ = 0;
};

}  // namespace cairn

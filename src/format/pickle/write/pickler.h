// Writes opcodes of pickle protocol 2 with CPython's memo: every object that can be referred to
// again gets the next memo number when it is made.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/value.h"

#include "format/pickle/opcodes.h"
#include "format/pickle/write/text_table.h"
#include "io/memory/page_memory.h"

namespace cairn::pickle {

// A copy continues where the original was. The copy may refer to texts that the original owned or
// was given.
class Pickler {
 public:
  Pickler();

  // The finished pickle.
  std::string finish() &&;
  // Announces that about so many more bytes will be written, with so many new texts. Growing step
  // by step takes twice the memory, and new memory costs more time than writing into it.
  void reserve(std::size_t bytes, std::size_t texts) {
    reserve_pages(out_, out_.size() + bytes);
    texts_.reserve(texts);
  }
  // The bytes written so far.
  const std::string& written() const { return out_; }
  // The values that decide room(), besides the written bytes.
  struct Room {
    std::size_t bytes = 0;
    std::size_t changing_integers = 0;
    bool operator==(const Room&) const = default;
  };
  Room room_so_far() const { return {room_, changing_integers_}; }
  // The number of different texts written.
  std::size_t texts() const { return texts_.size(); }
  // Moves the texts written so far, except the first `first` ones, into `texts`, which must outlive
  // this pickler and its copies.
  void move_texts(std::deque<std::string>& texts, std::size_t first) {
    texts_.move_texts(texts, first);
  }
  // How many more bytes the pickle would have if everything given to changing_...() became as long
  // as possible; see Encoded::room.
  std::size_t room() const;

  void op(Op code) { out_.push_back(static_cast<char>(code)); }
  // Opcodes that are written many times. Empty until all names in the opcodes have memo numbers, so
  // that writing the opcodes assigns no new number. Valid for this pickler, and for copies that are
  // made of it later.
  using Phrase = std::string;
  // Writes the phrase. Calls `write` instead as long as the phrase is empty.
  template <class Write>
  void write_phrase(Phrase& phrase, const Write& write) {
    if (!phrase.empty()) {
      out_ += phrase;
      return;
    }
    const std::size_t begin = out_.size();
    const std::uint32_t numbers = memo_count_;
    write();
    if (memo_count_ == numbers) phrase = out_.substr(begin);
  }
  void none() { op(Op::kNone); }
  void boolean(bool v) { op(v ? Op::kNewTrue : Op::kNewFalse); }
  void integer(std::int64_t v);
  void big_integer(const BigInt& v);
  void real(double v);

  // Writes a str. Equal texts are written once, as CPython does for texts that are one object. The
  // bytes of `v` must live as long as the pickler.
  void text(std::string_view v);
  // Writes a number's decimal text, as text() does, but keeps no view of the text. For keys that
  // count up: each number must be written for the first time after its predecessor.
  void text_of(std::uint32_t number);
  // Writes bytes, which have no opcode of their own in protocol 2. The room allows for other
  // content of the same size. Returns the memo number.
  std::uint32_t bytes(std::string_view v);
  // As integer() and text(), for a number or text that may differ the next time the object is
  // written.
  void changing_integer(std::int64_t v);
  void changing_text(std::string_view v);
  // Writes a function or class, once.
  void global(std::string_view module, std::string_view name);

  void empty_tuple() { op(Op::kEmptyTuple); }
  // Make a tuple of the last `size` items (one to three), or of all items since op(Op::kMark).
  // Return the memo number.
  std::uint32_t tuple(std::size_t size);
  std::uint32_t tuple_since_mark();
  // Calls the function under the tuple on the stack.
  std::uint32_t reduce();
  std::uint32_t empty_ordered_dict();
  void tuple_of(std::span<const std::int64_t> integers);

  // Gives the object just made the next memo number, and returns that number.
  std::uint32_t put();
  void get(std::uint32_t index);

  // Appends opcodes that the caller assembled (opcodes.h). Memo numbers in them must be from
  // next_number().
  void append(std::string_view opcodes) { out_ += opcodes; }
  std::uint32_t next_number() { return memo_count_++; }
  // Writes everything so far to `sink`, and keeps none of it.
  void move_to(ByteSink& sink) {
    sink.write(as_bytes(out_));
    out_.clear();
  }

 private:
  struct Global {
    std::string_view module;
    std::string_view name;
    std::uint32_t index;
  };

  // For a text that is a number, as the keys of storages are: returns the place that holds its memo
  // number + 1, if the numbers came in order so far. Returns nullptr for other texts.
  std::uint32_t* number_place(std::string_view v);
  // Writes a text that was not written before.
  void new_text(std::string_view v);
  // Returns the memo number of a global that was written before. Otherwise remembers it under the
  // next number, and returns nullopt.
  std::optional<std::uint32_t> find_or_add_global(std::string_view module, std::string_view name);
  std::string_view own(std::string_view name);
  void long_op(std::string_view twos_complement);
  // Appends, with one call, all bytes that `put` writes. A tensor takes ten opcodes, so calls
  // count.
  template <class Put>
  void append_put(const Put& put) {
    std::array<char, kMaxOpcodeBytes> bytes = {};
    out_.append(bytes.data(), put(bytes.data()));
  }
  template <std::unsigned_integral T>
  void op_with(Op code, T operand) {
    append_put([&](char* at) { return put_op(at, code, operand); });
  }
  void unicode(std::string_view v);

  std::string out_;
  std::uint32_t memo_count_ = 0;
  std::size_t room_ = 0;
  std::size_t changing_integers_ = 0;
  TextTable texts_;                     // except those that number_place() has
  std::vector<std::uint32_t> numbers_;  // "0", "1", ...; 0: not written yet
  bool has_other_numbers_ = false;
  // The owned texts of globals_ and more_globals_.
  std::vector<std::shared_ptr<const std::string>> global_names_;
  std::vector<Global> globals_;  // the first globals; most pickles have few
  TextTable more_globals_;
};

}  // namespace cairn::pickle

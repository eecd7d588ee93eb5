// Writes opcodes of pickle protocol 2 with CPython's memo: every object that can be referred to
// again gets the next number when it is made.
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

// A copy goes on from where the other one is; what was written by then may be needed by both.
class Pickler {
 public:
  Pickler();

  // The finished pickle.
  std::string finish() &&;
  // So many bytes more are about to be written, with so many new texts, about: growing step by step
  // needs twice the memory, and new memory costs more than what is written into it.
  void reserve(std::size_t bytes, std::size_t texts) {
    reserve_pages(out_, out_.size() + bytes);
    texts_.reserve(texts);
  }
  // What is written so far.
  const std::string& written() const { return out_; }
  // What its room() will follow from, beside what is written.
  struct Room {
    std::size_t bytes = 0;
    std::size_t changing_integers = 0;
    bool operator==(const Room&) const = default;
  };
  Room room_so_far() const { return {room_, changing_integers_}; }
  // How many texts were written, each once.
  std::size_t texts() const { return texts_.size(); }
  // From now on the texts written so far, but for the `first` ones, are those in `texts`, which
  // must live as long as this and its copies.
  void move_texts(std::deque<std::string>& texts, std::size_t first) {
    texts_.move_texts(texts, first);
  }
  // Bytes that it would have more if everything given to changing_...() were as long as it may
  // become; see Encoded::room.
  std::size_t room() const;

  void op(Op code) { out_.push_back(static_cast<char>(code)); }
  // What is written many times, as it was when all that it names had its number and nothing got a
  // new one; empty: not yet. It belongs to this pickler, and to copies made of it from then on.
  using Phrase = std::string;
  // Writes the phrase; by `write` as long as it is empty.
  template <class Write>
  void say(Phrase& phrase, const Write& write) {
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

  // A str; equal texts are written once, as CPython does for texts that are one object. The bytes
  // behind `v` must live as long as the pickler.
  void text(std::string_view v);
  // The text that the number is, as text() writes it; it needs no bytes that live on. For keys that
  // count up: the first time of each number comes behind that of the one before it.
  void text_of(std::uint32_t number);
  // bytes, which have no opcode of their own in protocol 2. Others of as many bytes have
  // room in its place. Returns the memo number.
  std::uint32_t bytes(std::string_view v);
  // The same as integer() and text(), of what may be another number or text the next time.
  void changing_integer(std::int64_t v);
  void changing_text(std::string_view v);
  // A function or class, written once.
  void global(std::string_view module, std::string_view name);

  void empty_tuple() { op(Op::kEmptyTuple); }
  // A tuple of the last one to three items; and of all since op(Op::kMark). These return the memo
  // number.
  std::uint32_t tuple(std::size_t size);
  std::uint32_t tuple_since_mark();
  // Calls the function under the tuple on the stack.
  std::uint32_t reduce();
  std::uint32_t empty_ordered_dict();
  void tuple_of(std::span<const std::int64_t> integers);

  // Gives the object just made the next memo number, which is returned.
  std::uint32_t put();
  void get(std::uint32_t index);

  // Opcodes that the caller put together (opcodes.h); numbers that they give to objects are
  // from next_number().
  void append(std::string_view opcodes) { out_ += opcodes; }
  std::uint32_t next_number() { return memo_count_++; }
  // Hands over what is written so far, and keeps nothing of it.
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

  // Where the memo number + 1 of a text stands that is a number, as the keys of storages are: as
  // long as they come one after the other. nullptr for other texts.
  std::uint32_t* number_place(std::string_view v);
  // A text that was not written before.
  void new_text(std::string_view v);
  // The memo number of a global that was written before; otherwise remembers it with the next one.
  std::optional<std::uint32_t> find_or_add_global(std::string_view module, std::string_view name);
  std::string_view own(std::string_view name);
  void long_op(std::string_view twos_complement);
  // Appends at once what `put` puts at the place that it is given, for there are ten opcodes to a
  // tensor.
  template <class Put>
  void append_put(const Put& put) {
    std::array<char, kMostOpcodeBytes> bytes = {};
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
  TextTable texts_;                     // but for those that number_place() has
  std::vector<std::uint32_t> numbers_;  // "0", "1", ...; 0: not written yet
  bool has_other_numbers_ = false;
  std::vector<std::shared_ptr<const std::string>> global_names_;  // that those below look at
  std::vector<Global> globals_;  // the first ones: most pickles have few
  TextTable more_globals_;
};

}  // namespace cairn::pickle

// Writes opcodes of pickle protocol 2 with CPython's memo: every object that can be referred to
// again gets the next number when it is made.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cairn/value.h"

#include "core/seeded_hash.h"
#include "format/pickle/opcodes.h"

namespace cairn::pickle {

class Pickler {
 public:
  Pickler();

  // The finished pickle.
  std::string finish() &&;

  void op(Op code) { out_.push_back(static_cast<char>(code)); }
  void none() { op(Op::kNone); }
  void boolean(bool v) { op(v ? Op::kNewTrue : Op::kNewFalse); }
  void integer(std::int64_t v);
  void big_integer(const BigInt& v);
  void real(double v);

  // A str; equal texts are written once, as CPython does for texts that are one object. The bytes
  // behind `v` must live as long as the pickler.
  void text(std::string_view v);
  // bytes, which have no opcode of their own in protocol 2.
  void bytes(std::string_view v);
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
  void tuple_of(const std::vector<std::int64_t>& integers);

  // Gives the object just made the next memo number, which is returned.
  std::uint32_t put();
  void get(std::uint32_t index);

 private:
  void long_op(std::string_view twos_complement);
  void unicode(std::string_view v);

  std::string out_;
  std::uint32_t memo_count_ = 0;
  std::unordered_map<std::string_view, std::uint32_t, TextHash> texts_;
  std::map<std::string, std::uint32_t> globals_;
};

}  // namespace cairn::pickle

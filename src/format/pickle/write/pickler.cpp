#include "format/pickle/write/pickler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "cairn/error.h"

#include "core/little_endian.h"
#include "format/pickle/text.h"

namespace cairn::pickle {

Pickler::Pickler() {
  op(Op::kProto);
  out_.push_back(2);
}

std::string Pickler::finish() && {
  op(Op::kStop);
  return std::move(out_);
}

std::size_t Pickler::room() const {
  // The size of the pickle with its room is rounded up to a multiple of this. The added bytes are
  // room for changes of other kinds: one more item in a list, a None that becomes a number.
  constexpr std::size_t kStep = 512;
  if (room_ == 0) return 0;
  const std::size_t full = out_.size() + 1 + room_;  // with its STOP
  return room_ + (kStep - full % kStep) % kStep;
}

void Pickler::changing_integer(std::int64_t v) {
  // Very many integers are data rather than counters, and room for each would cost too much.
  constexpr std::size_t kOfAnySize = 4096;
  constexpr std::size_t kOf32Bits = std::size_t{64} << 10;
  constexpr std::size_t kMaxBytes = 11;  // LONG1, the length, nine bytes at most
  constexpr std::size_t kBytesOf32Bits = 5;
  const std::size_t before = out_.size();
  integer(v);
  const std::size_t size = out_.size() - before;
  const std::size_t most = changing_integers_ < kOfAnySize  ? kMaxBytes
                           : changing_integers_ < kOf32Bits ? kBytesOf32Bits
                                                            : 0;
  ++changing_integers_;
  if (most > size) room_ += most - size;
}

void Pickler::changing_text(std::string_view v) {
  constexpr std::size_t kStep = 16;
  const std::uint32_t before = memo_count_;
  text(v);
  if (memo_count_ != before) room_ += kStep - v.size() % kStep;
}

void Pickler::integer(std::int64_t v) {
  append_put([&](char* at) { return put_integer(at, v); });
}

void Pickler::big_integer(const BigInt& v) { long_op(v.twos_complement); }

void Pickler::long_op(std::string_view twos_complement) {
  if (twos_complement.size() <= std::numeric_limits<std::uint8_t>::max()) {
    op_with(Op::kLong1, static_cast<std::uint8_t>(twos_complement.size()));
  } else {
    op_with(Op::kLong4, static_cast<std::uint32_t>(twos_complement.size()));
  }
  out_ += twos_complement;
}

void Pickler::real(double v) {
  op(Op::kBinFloat);
  // The only big-endian number in a pickle.
  append_little_endian(out_, __builtin_bswap64(std::bit_cast<std::uint64_t>(v)));
}

void Pickler::unicode(std::string_view v) {
  if (v.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw UnsupportedError(
        "a text or bytes object has more than 4 GiB, which protocol 2 cannot hold");
  }
  op_with(Op::kBinUnicode, static_cast<std::uint32_t>(v.size()));
  out_ += v;
}

std::uint32_t* Pickler::number_place(std::string_view v) {
  if (v.empty() || v.size() > 9 || (v.size() > 1 && v[0] == '0')) return nullptr;
  std::uint32_t number = 0;
  for (const char c : v) {
    if (c < '0' || c > '9') return nullptr;
    number = 10 * number + static_cast<std::uint32_t>(c - '0');
  }
  if (number == numbers_.size() && !has_other_numbers_) numbers_.push_back(0);
  if (number < numbers_.size()) return &numbers_[number];
  has_other_numbers_ = true;  // this number goes to texts_, as do all new ones after it
  return nullptr;
}

void Pickler::text(std::string_view v) {
  std::uint32_t* number = number_place(v);
  if (number != nullptr && *number != 0) return get(*number - 1);
  if (const std::uint32_t* known = number != nullptr ? nullptr : texts_.find(v)) return get(*known);
  if (!is_utf8(v)) throw UnsupportedError("a str is not UTF-8, which Python's str cannot hold");
  if (number != nullptr) {
    *number = memo_count_ + 1;
  } else {
    texts_.add(v, memo_count_);
  }
  new_text(v);
}

void Pickler::text_of(std::uint32_t number) {
  std::array<char, 10> digits = {};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  const std::string_view text(digits.data(), end);
  if (number == numbers_.size()) {
    const std::uint32_t* const known = has_other_numbers_ ? texts_.find(text) : nullptr;
    numbers_.push_back(known != nullptr ? *known + 1 : 0);
  }
  std::uint32_t& place = numbers_.at(number);
  if (place != 0) return get(place - 1);
  place = memo_count_ + 1;
  new_text(text);
}

void Pickler::new_text(std::string_view v) {
  unicode(v);
  put();
}

std::uint32_t Pickler::bytes(std::string_view v) {
  // Empty bytes are written in this way, too. Python would write __builtin__.bytes for them, which
  // weights_only refuses.
  global("_codecs", "encode");
  const std::string utf8 = latin1_to_utf8(v);
  unicode(utf8);
  // Half of all random bytes take two bytes in UTF-8. A deviation of eight standard deviations does
  // not occur.
  const auto deviation = static_cast<std::size_t>(std::sqrt(static_cast<double>(v.size()))) / 2 + 1;
  const std::size_t usual = v.size() + v.size() / 2 + 8 * deviation;
  const std::size_t most = utf8.size() <= usual ? std::min(usual, 2 * v.size()) : 2 * v.size();
  room_ += most - utf8.size();
  put();
  text("latin1");
  tuple(2);
  return reduce();
}

std::string_view Pickler::own(std::string_view name) {
  return *global_names_.emplace_back(std::make_shared<const std::string>(name));
}

std::optional<std::uint32_t> Pickler::find_or_add_global(std::string_view module,
                                                         std::string_view name) {
  constexpr std::size_t kFew = 32;
  const auto known = std::find_if(globals_.begin(), globals_.end(), [&](const Global& each) {
    return each.name == name && each.module == module;
  });
  if (known != globals_.end()) return known->index;
  if (globals_.size() < kFew) {
    globals_.push_back({own(module), own(name), memo_count_});
    return std::nullopt;
  }
  std::string line = std::string(module) + "\n" + std::string(name);
  if (const auto* found = more_globals_.find(line)) return *found;
  more_globals_.add(own(line), memo_count_);
  return std::nullopt;
}

void Pickler::global(std::string_view module, std::string_view name) {
  if (const auto known = find_or_add_global(module, name)) return get(*known);
  op(Op::kGlobal);
  out_ += module;
  out_ += '\n';
  out_ += name;
  out_ += '\n';
  put();
}

std::uint32_t Pickler::tuple(std::size_t size) {
  op(size == 1 ? Op::kTuple1 : size == 2 ? Op::kTuple2 : Op::kTuple3);
  return put();
}

std::uint32_t Pickler::tuple_since_mark() {
  op(Op::kTuple);
  return put();
}

void Pickler::tuple_of(std::span<const std::int64_t> integers) {
  if (integers.empty()) return empty_tuple();
  if (integers.size() > 3) op(Op::kMark);
  for (const std::int64_t v : integers) {
    integer(v);
  }
  integers.size() > 3 ? tuple_since_mark() : tuple(integers.size());
}

std::uint32_t Pickler::reduce() {
  op(Op::kReduce);
  return put();
}

std::uint32_t Pickler::empty_ordered_dict() {
  global("collections", "OrderedDict");
  empty_tuple();
  return reduce();
}

std::uint32_t Pickler::put() {
  const std::uint32_t index = next_number();
  append_put([&](char* at) { return put_put(at, index); });
  return index;
}

void Pickler::get(std::uint32_t index) {
  append_put([&](char* at) { return put_get(at, index); });
}

}  // namespace cairn::pickle

#include "format/pickle/pickler.h"

#include <bit>
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

void Pickler::integer(std::int64_t v) {
  if (v >= 0 && v <= 0xFF) {
    op(Op::kBinInt1);
    out_.push_back(static_cast<char>(v));
  } else if (v >= 0 && v <= 0xFFFF) {
    op(Op::kBinInt2);
    append_little_endian(out_, static_cast<std::uint16_t>(v));
  } else if (std::in_range<std::int32_t>(v)) {
    op(Op::kBinInt);
    append_little_endian(out_, static_cast<std::uint32_t>(v));
  } else {
    std::string bytes;
    append_little_endian(bytes, static_cast<std::uint64_t>(v));
    const auto is_sign = [](char byte, char below) {
      return (byte == '\0' && below >= 0) || (byte == '\xff' && below < 0);
    };
    while (is_sign(bytes.back(), bytes[bytes.size() - 2])) {
      bytes.pop_back();
    }
    long_op(bytes);
  }
}

void Pickler::big_integer(const BigInt& v) { long_op(v.twos_complement); }

void Pickler::long_op(std::string_view twos_complement) {
  if (twos_complement.size() <= std::numeric_limits<std::uint8_t>::max()) {
    op(Op::kLong1);
    out_.push_back(static_cast<char>(twos_complement.size()));
  } else {
    op(Op::kLong4);
    append_little_endian(out_, static_cast<std::uint32_t>(twos_complement.size()));
  }
  out_ += twos_complement;
}

void Pickler::real(double v) {
  op(Op::kBinFloat);
  const auto bits = std::bit_cast<std::uint64_t>(v);
  for (int shift = 56; shift >= 0; shift -= 8) {
    out_.push_back(static_cast<char>(bits >> shift));
  }
}

void Pickler::unicode(std::string_view v) {
  if (v.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw UnsupportedError("a text or bytes of more than 4 GiB");
  }
  op(Op::kBinUnicode);
  append_little_endian(out_, static_cast<std::uint32_t>(v.size()));
  out_ += v;
}

void Pickler::text(std::string_view v) {
  const auto [known, is_new] = texts_.try_emplace(v, memo_count_);
  if (!is_new) {
    get(known->second);
    return;
  }
  if (!is_utf8(v)) throw UnsupportedError("a str that is not UTF-8; Python could not hold it");
  unicode(v);
  put();
}

void Pickler::bytes(std::string_view v) {
  // Also when empty: Python would name __builtin__.bytes then, which weights_only refuses.
  global("_codecs", "encode");
  unicode(latin1_to_utf8(v));
  put();
  text("latin1");
  tuple(2);
  reduce();
}

void Pickler::global(std::string_view module, std::string_view name) {
  const std::string line = std::string(module) + "\n" + std::string(name) + "\n";
  const auto [known, is_new] = globals_.try_emplace(line, memo_count_);
  if (!is_new) {
    get(known->second);
    return;
  }
  op(Op::kGlobal);
  out_ += line;
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

void Pickler::tuple_of(const std::vector<std::int64_t>& integers) {
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
  const std::uint32_t index = memo_count_++;
  if (index <= 0xFF) {
    op(Op::kBinPut);
    out_.push_back(static_cast<char>(index));
  } else {
    op(Op::kLongBinPut);
    append_little_endian(out_, index);
  }
  return index;
}

void Pickler::get(std::uint32_t index) {
  if (index <= 0xFF) {
    op(Op::kBinGet);
    out_.push_back(static_cast<char>(index));
  } else {
    op(Op::kLongBinGet);
    append_little_endian(out_, index);
  }
}

}  // namespace cairn::pickle

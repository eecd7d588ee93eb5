#include "format/pickle/write/pickle_size.h"

#include <algorithm>
#include <optional>
#include <string>

#include "cairn/error.h"

#include "core/byte_reader.h"
#include "format/pickle/opcodes.h"
#include "io/bytes/source_part.h"

namespace cairn::pickle {
namespace {

// Each of these functions skips the operand of `op` if `op` belongs to the function's group, and
// returns whether it does.

bool skip_fixed(Op op, ByteReader& in) {
  switch (op) {
    case Op::kBinInt1:
    case Op::kBinGet:
    case Op::kBinPut:
    case Op::kProto:
    case Op::kExt1:
      in.take(1);
      return true;
    case Op::kBinInt2:
    case Op::kExt2:
      in.take(2);
      return true;
    case Op::kBinInt:
    case Op::kLongBinGet:
    case Op::kLongBinPut:
    case Op::kExt4:
      in.take(4);
      return true;
    case Op::kBinFloat:
    case Op::kFrame:
      in.take(8);
      return true;
    default:
      return false;
  }
}

bool skip_counted(Op op, ByteReader& in) {
  switch (op) {
    case Op::kLong1:
    case Op::kShortBinString:
    case Op::kShortBinUnicode:
    case Op::kShortBinBytes:
      in.take(in.u8());
      return true;
    case Op::kLong4:
    case Op::kBinString:
    case Op::kBinUnicode:
    case Op::kBinBytes:
      in.take(in.u32());
      return true;
    case Op::kBinUnicode8:
    case Op::kBinBytes8:
    case Op::kByteArray8:
      in.take(in.u64());
      return true;
    default:
      return false;
  }
}

bool skip_lines(Op op, ByteReader& in) {
  switch (op) {
    case Op::kGlobal:
    case Op::kInst:
      in.line();
      in.line();
      return true;
    case Op::kInt:
    case Op::kLong:
    case Op::kFloat:
    case Op::kString:
    case Op::kUnicode:
    case Op::kGet:
    case Op::kPut:
    case Op::kPersId:
      in.line();
      return true;
    default:
      return false;
  }
}

bool has_no_operand(Op op) {
  switch (op) {
    case Op::kMark:
    case Op::kEmptyTuple:
    case Op::kPop:
    case Op::kPopMark:
    case Op::kDup:
    case Op::kNone:
    case Op::kBinPersId:
    case Op::kReduce:
    case Op::kEmptyList:
    case Op::kAppend:
    case Op::kBuild:
    case Op::kDict:
    case Op::kAppends:
    case Op::kList:
    case Op::kObj:
    case Op::kSetItem:
    case Op::kTuple:
    case Op::kSetItems:
    case Op::kEmptyDict:
    case Op::kNewObj:
    case Op::kTuple1:
    case Op::kTuple2:
    case Op::kTuple3:
    case Op::kNewTrue:
    case Op::kNewFalse:
    case Op::kEmptySet:
    case Op::kAddItems:
    case Op::kFrozenSet:
    case Op::kNewObjEx:
    case Op::kStackGlobal:
    case Op::kMemoize:
    case Op::kNextBuffer:
    case Op::kReadonlyBuffer:
      return true;
    default:
      return false;
  }
}

// Calls look(op, end of the opcode) for each opcode. Returns the size of the pickle; nullopt if
// `bytes` end before STOP.
template <class Look>
std::optional<std::size_t> step_over(ByteView bytes, const Look& look) {
  ByteReader in(bytes, "the pickle");
  while (true) {
    const std::size_t at = in.position();
    bool is_opcode = false;
    auto op = Op::kStop;
    try {
      op = static_cast<Op>(in.u8());
      if (op == Op::kStop) return in.position();
      is_opcode =
          skip_fixed(op, in) || skip_counted(op, in) || skip_lines(op, in) || has_no_operand(op);
    } catch (const CorruptError&) {
      return std::nullopt;
    }
    if (is_opcode) {
      look(op, in.position());
      continue;
    }
    throw CorruptError("the pickle holds byte " + std::to_string(static_cast<int>(op)) +
                           ", which is not an opcode",
                       {}, at);
  }
}

std::optional<std::size_t> find_pickle_size(ByteView bytes) {
  return step_over(bytes, [](Op, std::size_t) {});
}

}  // namespace

std::size_t pickle_size(ByteView bytes) {
  const auto size = find_pickle_size(bytes);
  if (size) return *size;
  throw CorruptError("the pickle ends too early: it has no STOP", {}, bytes.size());
}

SharedBytes pickle_at(const Windows& source, std::uint64_t at) {
  constexpr std::uint64_t kTimes = 4;
  source.check_range(at, 0);
  const std::uint64_t rest = source.size() - at;
  for (std::uint64_t bytes = std::min(kFirstPickleBytes, rest);;) {
    const SharedBytes read =
        source.has(at, bytes) ? source.view(at, bytes) : read_bytes(source, at, bytes);
    if (bytes == rest) return read.part(0, pickle_size(read.view));
    const auto size = find_pickle_size(read.view);
    if (size) return read.part(0, *size);
    bytes = bytes > rest / kTimes ? rest : bytes * kTimes;
  }
}

std::optional<std::uint64_t> bytes_per_storage(ByteView beginning) {
  constexpr std::size_t kEnough = 16;
  std::size_t count = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  try {
    step_over(beginning, [&](Op op, std::size_t end) {
      if (op != Op::kBinPersId && op != Op::kPersId) return;
      if (count++ == 0) first = end;
      last = end;
    });
  } catch (const CorruptError&) {
    return std::nullopt;  // the reader of the whole pickle reports it
  }
  if (count < kEnough) return std::nullopt;
  return (last - first) / (count - 1) + 1;
}

}  // namespace cairn::pickle

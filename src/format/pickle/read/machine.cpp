// The machine's loop, and the opcodes for the stack, the memo, numbers and texts. Objects are in
// machine_objects.cpp.
#include "format/pickle/read/machine.h"

#include <algorithm>
#include <bit>

#include "cairn/error.h"

#include "format/pickle/text.h"

namespace cairn::pickle {
void fail(const std::string& what) { throw CorruptError("the pickle " + what); }

Machine::Machine(ByteView pickle, Graph& graph, StorageLoader& storages,
                 std::span<const Global> more)
    : graph_(graph), storages_(storages), more_(more), pickle_(pickle), in_(pickle, "the pickle") {}

Machine::~Machine() {
  stack_.clear(graph_.refs());
  memo_.clear(graph_.refs());
  graph_.budget().give_back(marks_.capacity() * sizeof(marks_[0]));
}

Ref Machine::run() {
  std::size_t at = 0;
  try {
    while (true) {
      at = in_.position();
      const auto op = static_cast<Op>(in_.u8());
      if (op == Op::kStop) break;
      const bool known = run_number(op) || run_text(op) || run_line(op) || run_memo(op) ||
                         run_container(op) || run_filling(op) || run_stack(op) || run_object(op);
      if (!known) refuse(op);
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("leaves more than one object");
    return stack_[0];
  } catch (const CorruptError& e) {
    if (e.offset() != CorruptError::kNoOffset) throw;
    throw CorruptError(e.what(), e.file(), at);
  }
}

void Machine::refuse(Op op) const {
  switch (op) {
    case Op::kPersId:
    case Op::kInst:
    case Op::kObj:
    case Op::kExt1:
    case Op::kExt2:
    case Op::kExt4:
    case Op::kNextBuffer:
    case Op::kReadonlyBuffer:
      throw UnsupportedError("the pickle uses opcode " + std::to_string(static_cast<int>(op)) +
                             ", which PyTorch never writes");
    default:
      fail("holds byte " + std::to_string(static_cast<int>(op)) + ", which is not an opcode");
  }
}

// --- Stack and memo -----------------------------------------------------------------------------

Ref Machine::pop() {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) fail("takes more from the stack than there is");
  const Ref top = stack_.back();
  stack_.shrink_to(stack_.size() - 1);
  return top;
}

void Machine::mark() {
  if (marks_.size() == marks_.capacity()) {
    const std::size_t capacity = std::max<std::size_t>(64, marks_.size() * 2);
    graph_.budget().take((capacity - marks_.capacity()) * sizeof(marks_[0]));
    marks_.reserve(capacity);
  }
  marks_.push_back(static_cast<std::uint32_t>(stack_.size()));
}

std::span<const Ref> Machine::since_mark() const {
  if (marks_.empty()) fail("looks for a mark that was never set");
  return std::span<const Ref>(stack_).subspan(marks_.back());
}

void Machine::drop_mark() {
  stack_.shrink_to(marks_.back());
  marks_.pop_back();
}

bool Machine::run_stack(Op op) {
  switch (op) {
    case Op::kProto:
      if (const int protocol = in_.u8(); protocol > kHighestProtocol) {
        throw UnsupportedError("the pickle has protocol " + std::to_string(protocol) +
                               "; cairn reads up to " + std::to_string(kHighestProtocol));
      }
      return true;
    case Op::kFrame:
      if (in_.u64() > in_.remaining()) fail("announces a frame beyond its end");
      return true;
    case Op::kMark:
      mark();
      return true;
    case Op::kPop:
      pop();
      return true;
    case Op::kPopMark:
      since_mark();
      drop_mark();
      return true;
    case Op::kDup: {
      const Ref top = pop();
      share(top);
      push(top);
      push(top);
      return true;
    }
    default:
      return false;
  }
}

// A memo index must be below the number of bytes read so far, which bounds the number of objects
// made. So the memo never takes more memory than the bytes of the pickle justify.
void Machine::remember(std::uint64_t index) {
  if (index >= in_.position())
    fail("gives an object a number that is too large: " + std::to_string(index));
  const Ref top = pop();
  push(top);
  memorize(index, top);
}

void Machine::memorize(std::uint64_t index, Ref ref) {
  if (index >= memo_.size()) memo_.resize(index + 1, graph_.refs());
  if (memo_[index].is_nothing()) ++memo_count_;
  memo_[index] = ref;
}

void Machine::share(const Ref& ref) {
  if (auto* container = graph_.find<Container>(ref)) container->is_shared = true;
}

void Machine::recall(std::uint64_t index) {
  if (index >= memo_.size() || memo_[index].is_nothing()) {
    fail("refers to object " + std::to_string(index) + ", which it has not made");
  }
  const Ref found = memo_[index];
  if (found.is_left_out()) throw PartsWanted();
  share(found);
  push(found);
  if (leaves_out_ && is_rebuild_tensor(found)) run_usual_tensor();
}

bool Machine::run_memo(Op op) {
  switch (op) {
    case Op::kBinPut:
      remember(in_.u8());
      return true;
    case Op::kLongBinPut:
      remember(in_.u32());
      return true;
    case Op::kMemoize:
      remember(memo_count_);
      return true;
    case Op::kBinGet:
      recall(in_.u8());
      return true;
    case Op::kLongBinGet:
      recall(in_.u32());
      return true;
    default:
      return false;
  }
}

// --- Numbers and texts --------------------------------------------------------------------------

void Machine::push_integer(std::string_view twos_complement) {
  // Drops superfluous sign bytes, so that equal numbers have equal bytes.
  const auto is_sign = [](char byte, signed char below) {
    return (byte == '\0' && below >= 0) || (byte == '\xff' && below < 0);
  };
  while (twos_complement.size() > 1 &&
         is_sign(twos_complement.back(), twos_complement[twos_complement.size() - 2])) {
    twos_complement.remove_suffix(1);
  }
  if (twos_complement.size() > sizeof(std::int64_t)) {
    push(graph_.add(Value(BigInt{std::string(twos_complement)})));
    return;
  }
  const bool is_negative =
      !twos_complement.empty() && static_cast<signed char>(twos_complement.back()) < 0;
  std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
  std::memcpy(&value, twos_complement.data(), twos_complement.size());
  push(graph_.add_integer(static_cast<std::int64_t>(value)));
}

void Machine::push_float() {  // the only big-endian number of a pickle
  std::uint64_t bits = 0;
  for (const std::byte byte : in_.take(8)) {
    bits = bits << 8 | static_cast<std::uint64_t>(byte);
  }
  push(graph_.add_real(std::bit_cast<double>(bits)));
}

bool Machine::run_number(Op op) {
  switch (op) {
    case Op::kNone:
      push(None{});
      return true;
    case Op::kNewTrue:
      push(true);
      return true;
    case Op::kNewFalse:
      push(false);
      return true;
    case Op::kBinInt:
      push(graph_.add_integer(static_cast<std::int32_t>(in_.u32())));
      return true;
    case Op::kBinInt1:
      push(graph_.add_integer(in_.u8()));
      return true;
    case Op::kBinInt2:
      push(graph_.add_integer(in_.u16()));
      return true;
    case Op::kLong1:
      push_integer(in_.take_text(in_.u8()));
      return true;
    case Op::kLong4:
      push_integer(in_.take_text(in_.u32()));
      return true;
    case Op::kBinFloat:
      push_float();
      return true;
    default:
      return false;
  }
}

void Machine::push_text(std::string_view text) {
  if (!is_utf8(text)) fail("holds a str that is not UTF-8");
  push(graph_.add(Text{text}));
}

void Machine::push_bytes(std::string_view data, bool is_bytearray) {
  push(graph_.add(Value(Bytes{std::string(data), is_bytearray})));
}

bool Machine::run_text(Op op) {
  switch (op) {
    case Op::kBinUnicode:
      push_text(in_.take_text(in_.u32()));
      return true;
    case Op::kShortBinUnicode:
      push_text(in_.take_text(in_.u8()));
      return true;
    case Op::kBinUnicode8:
      push_text(in_.take_text(in_.u64()));
      return true;
    case Op::kBinString:
      push(graph_.add(Text{in_.take_text(in_.u32()), true}));
      return true;
    case Op::kShortBinString:
      push(graph_.add(Text{in_.take_text(in_.u8()), true}));
      return true;
    case Op::kBinBytes:
      push_bytes(in_.take_text(in_.u32()), false);
      return true;
    case Op::kShortBinBytes:
      push_bytes(in_.take_text(in_.u8()), false);
      return true;
    case Op::kBinBytes8:
      push_bytes(in_.take_text(in_.u64()), false);
      return true;
    case Op::kByteArray8:
      push_bytes(in_.take_text(in_.u64()), true);
      return true;
    default:
      return false;
  }
}

}  // namespace cairn::pickle

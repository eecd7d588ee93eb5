// The pickle virtual machine: runs the opcodes of protocols 0 to 5 and builds a graph.
//
// The machine does not recurse, and the graph's budget pays for all that it allocates. It runs no
// code from the file: functions and classes are rows of a closed table (globals.h). Objects of
// other classes become placeholders, or are refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/foreign.h"

#include "core/byte_reader.h"
#include "format/pickle/globals/globals.h"
#include "format/pickle/opcodes.h"
#include "format/pickle/read/graph.h"

namespace cairn::pickle {

// Throws CorruptError: "the pickle ", then `what`.
[[noreturn]] void fail(const std::string& what);

// Thrown by run() after leave_out_parts(), if the pickle refers to a part that was left out.
struct PartsWanted {};

class OpcodeCursor;

class Machine {
 public:
  // `more` are rows for this kind of file (resolve_global); they must outlive the graph.
  Machine(ByteView pickle, Graph& graph, StorageLoader& storages,
          std::span<const Global> more = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Call it before run(). The parts of tensors are then not made as objects, since pickles rarely
  // refer to them (machine_objects.cpp). If this pickle does, run() throws PartsWanted, and the
  // graph is useless.
  void leave_out_parts() { leaves_out_ = true; }
  // Runs up to STOP and returns the one object that is left. Throws CorruptError with the offset of
  // the opcode, UnsupportedError for an opcode that cairn does not know.
  Ref run();

 private:
  // Each of these functions runs `op` if `op` belongs to the function's group, and returns whether
  // it does.
  bool run_number(Op op);
  bool run_text(Op op);
  bool run_line(Op op);
  bool run_stack(Op op);
  bool run_memo(Op op);
  bool run_container(Op op);
  bool run_filling(Op op);
  bool run_object(Op op);
  [[noreturn]] void refuse(Op op) const;

  void push(Ref ref) { stack_.push_back(ref, graph_.refs()); }
  Ref pop();
  std::span<const Ref> since_mark() const;
  void drop_mark();

  void push_integer(std::string_view twos_complement);
  void push_float();
  void push_text(std::string_view text);
  void push_bytes(std::string_view data, bool is_bytearray);
  void push_container(Container::Kind kind);
  void push_container_since_mark(Container::Kind kind);
  void push_empty_tuple();
  void push_tuple_of(std::size_t size);
  void add_items(const Ref& target, std::span<const Ref> items, bool to_dict);
  void mark();
  void share(const Ref& ref);
  void remember(std::uint64_t index);
  void memorize(std::uint64_t index, Ref ref);
  void recall(std::uint64_t index);
  void push_global(std::string_view module, std::string_view name);
  void push_global_from_stack();
  void reduce(Foreign::Made made);
  void reduce_with_keywords();
  bool call_known(const Ref& function, std::span<const Ref> args);
  void build();
  bool build_numpy(const Ref& object, const Ref& state, std::span<const Ref> items);
  void build_script_object(const Ref& object, const Ref& state);
  void push_persistent();
  void push_module_class(const Call& id);
  struct UsualTensor;
  bool is_rebuild_tensor(const Ref& ref);
  Ref read_get(OpcodeCursor& in) const;
  bool is_new_place(std::uint32_t index, UsualTensor& found) const;
  bool leave_out(OpcodeCursor& in, UsualTensor& found) const;
  bool find_storage(OpcodeCursor& in, UsualTensor& found);
  bool find_usual_tensor(UsualTensor& found);
  void run_usual_tensor();
  void push_integer_line(std::string_view line);
  void push_float_line(std::string_view line);

  Graph& graph_;
  StorageLoader& storages_;
  std::span<const Global> more_;
  ByteView pickle_;
  ByteReader in_;
  Refs stack_;
  std::vector<std::uint32_t> marks_;  // heights of the stack
  Refs memo_;
  Ref empty_tuple_ = Ref::nothing();  // all empty tuples are one object, as in Python
  std::uint64_t memo_count_ = 0;
  bool leaves_out_ = false;
};

}  // namespace cairn::pickle
